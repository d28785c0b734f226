//! Endpoints for the API server, once OLM has mounted a certificate: webhooks, and an API.
//!
//! The webhooks reject a Greeting for `nobody` and add a label to a Greeting without labels. The API has one kind, `Salute`,
//! without objects.

use std::{convert::Infallible, path::Path, sync::Arc};

use anyhow::{Context as _, Result};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::CONTENT_TYPE,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use k8s_openapi::ByteString;
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// Path at which OLM mounts certificate and key for webhooks.
const CERTIFICATE: &str = "/tmp/k8s-webhook-server/serving-certs/tls.crt";
const KEY: &str = "/tmp/k8s-webhook-server/serving-certs/tls.key";
const ADDRESS: (&str, u16) = ("0.0.0.0", 8443);

/// Serves if there is a certificate, for as long as the process runs.
///
/// # Errors
/// If the port is in use.
pub(crate) async fn run() -> Result<()> {
    if !Path::new(CERTIFICATE).exists() {
        return Ok(());
    }
    let listener = TcpListener::bind(ADDRESS).await.context("cannot serve")?;
    tracing::info!(?ADDRESS, "serving");
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            if let Err(error) = connection(stream).await {
                tracing::info!(%error, "a connection has ended");
            }
        });
    }
}

async fn connection(stream: TcpStream) -> Result<()> {
    let stream = TlsAcceptor::from(Arc::new(config()?)).accept(stream).await?;
    http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service_fn(answer))
        .await?;
    Ok(())
}

/// Reads the certificate; done for each connection, because certificates are replaced while pods run.
fn config() -> Result<ServerConfig> {
    let chain = CertificateDer::pem_file_iter(CERTIFICATE)?.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(KEY)?;
    Ok(
        ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?,
    )
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let body = request.into_body().collect().await;
    let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
    let said = match (&method, path.as_str()) {
        (&Method::POST, "/validate") => Some(review(&asked, validated(&asked["request"]["object"]))),
        (&Method::POST, "/mutate") => Some(review(&asked, mutated(&asked["request"]["object"]))),
        (&Method::POST, "/convert") => Some(converted(&asked)),
        (&Method::GET, path) => served(path),
        _ => None,
    };
    let status = if said.is_some() {
        StatusCode::OK
    } else {
        StatusCode::NOT_FOUND
    };
    let mut response = Response::new(Full::from(said.unwrap_or_default().to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(
        CONTENT_TYPE,
        "application/json".parse().unwrap_or_else(|_| unreachable!()),
    );
    Ok(response)
}

fn review(asked: &Value, mut answer: Value) -> Value {
    answer["uid"] = asked["request"]["uid"].clone();
    json!({"apiVersion": asked["apiVersion"], "kind": asked["kind"], "response": answer})
}

fn validated(greeting: &Value) -> Value {
    let is_nobody = greeting["spec"]["name"] == "nobody";
    json!({"allowed": !is_nobody, "status": {"message": if is_nobody { "nobody cannot be greeted" } else { "" }}})
}

fn mutated(greeting: &Value) -> Value {
    if !greeting["metadata"]["labels"].is_null() {
        return json!({"allowed": true});
    }
    let patch =
        json!([{"op": "add", "path": "/metadata/labels", "value": {"greeted": "politely"}}]).to_string();
    json!({"allowed": true, "patchType": "JSONPatch", "patch": ByteString(patch.into())})
}

fn converted(asked: &Value) -> Value {
    let request = &asked["request"];
    let mut objects = request["objects"].clone();
    for object in objects.as_array_mut().into_iter().flatten() {
        object["apiVersion"] = request["desiredAPIVersion"].clone();
        object["metadata"]["annotations"]["converted"] = json!("by the operator");
    }
    let response =
        json!({"uid": request["uid"], "convertedObjects": objects, "result": {"status": "Success"}});
    json!({"apiVersion": asked["apiVersion"], "kind": asked["kind"], "response": response})
}

/// Returns the discovery of `/apis/GROUP/VERSION`, and lists without objects below it.
fn served(path: &str) -> Option<Value> {
    let mut parts = path.strip_prefix("/apis/")?.split('/');
    let version = format!("{}/{}", parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return Some(json!({"apiVersion": version, "kind": "SaluteList", "metadata": {}, "items": []}));
    }
    let resource = json!({"name": "salutes", "singularName": "salute", "namespaced": true, "kind": "Salute", "verbs": ["list"]});
    Some(
        json!({"apiVersion": "v1", "kind": "APIResourceList", "groupVersion": version, "resources": [resource]}),
    )
}
