//! Sends requests to a registry as fast as it answers, for `cargo xtask bench catalogs`.
//!
//! `registry_load first ADDRESS` exits after the first answer. `registry_load METHOD ADDRESS CLIENTS SECONDS` prints answers per
//! second; each client has its own connection.

use std::error::Error;
use std::time::{Duration, Instant};

use olm_registry::client::Client;
use olm_registry::proto;
use tokio_stream::StreamExt as _;
use tonic::Request;
use tonic::transport::Endpoint;

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    match arguments
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["first", address] => runtime.block_on(first(address)),
        [method, address, clients, seconds] => {
            let rate = runtime.block_on(load(method, address, clients.parse()?, seconds.parse()?))?;
            println!("{rate:.1}");
            Ok(())
        }
        _ => Err("usage: registry_load first ADDRESS | METHOD ADDRESS CLIENTS SECONDS".into()),
    }
}

/// Uses an adaptive window, as Go clients such as OLM's and ghz do. Without it an answer above 64 KiB waits for a round trip.
async fn connect(address: &str) -> Result<Client, Failure> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?.http2_adaptive_window(true);
    Ok(Client::new(endpoint.connect().await?))
}

async fn first(address: &str) -> Result<(), Failure> {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        if let Ok(client) = connect(address).await
            && client.list_packages().await.is_ok_and(|names| !names.is_empty())
        {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err("no answer in two minutes".into());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Returns the packages with their default channels' names, for requests in turn.
async fn packages(client: &Client) -> Result<Vec<(String, String)>, Failure> {
    let mut found = Vec::new();
    for name in client.list_packages().await? {
        let package = client.get_package(&name).await?;
        found.push((package.name, package.default_channel_name));
    }
    Ok(found)
}

async fn load(method: &str, address: &str, clients: usize, seconds: u64) -> Result<f64, Failure> {
    let known = std::sync::Arc::new(packages(&connect(address).await?).await?);
    let started = Instant::now();
    let end = started + Duration::from_secs(seconds);
    let mut workers = Vec::new();
    for number in 0..clients {
        let (method, address, known) = (method.to_owned(), address.to_owned(), known.clone());
        workers.push(tokio::spawn(async move {
            let client = connect(&address).await?;
            let mut count = 0_usize;
            while Instant::now() < end {
                ask(&client, &method, &known, number + count).await?;
                count += 1;
            }
            Ok::<usize, Failure>(count)
        }));
    }
    let mut total = 0;
    for worker in workers {
        total += worker.await??;
    }
    Ok(total as f64 / started.elapsed().as_secs_f64())
}

async fn ask(client: &Client, method: &str, known: &[(String, String)], turn: usize) -> Result<(), Failure> {
    let (package, channel) = known
        .get(turn % known.len().max(1))
        .ok_or("the catalog is empty")?
        .clone();
    match method {
        "list-bundles" => {
            let mut answers = client.list_bundles().await?;
            while let Some(answer) = answers.next().await {
                answer?;
            }
        }
        "list-packages" => {
            client.list_packages().await?;
        }
        "get-package" => {
            client.get_package(&package).await?;
        }
        "head" => {
            let question = Request::new(proto::GetBundleInChannelRequest {
                pkg_name: package,
                channel_name: channel,
            });
            let path = "/api.Registry/GetBundleForChannel";
            let _head: proto::Bundle = client.ask(path, question).await?;
        }
        other => return Err(format!("unknown method {other}").into()),
    }
    Ok(())
}
