//! A headless Chromium, driven by its DevTools protocol over pipes: it uses a page like a user, with keys.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::debian;

/// Debian packages of the browser and of fonts.
const PACKAGES: [&str; 2] = ["chromium-headless-shell", "fonts-dejavu-core"];
const PROGRAM: &str = "chromium-headless-shell";
/// Timeout for an answer of the browser.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two checks of a page.
const PAUSE: Duration = Duration::from_millis(200);
/// Maximum number of key presses to reach an element.
const MAX_KEYS: usize = 60;

/// Installs the browser if it is missing.
///
/// # Errors
/// It cannot be installed.
pub fn ensure_installed() -> anyhow::Result<()> {
    debian::ensure_installed(PROGRAM, &PACKAGES)
}

/// A browser with one page.
pub struct Browser {
    process: Child,
    requests: File,
    answers: Receiver<Value>,
    session: String,
    sent: u64,
    /// Complaints of the page: exceptions, and violations of its policy.
    complaints: Vec<String>,
    /// Folder of its profile and pipes.
    _folder: TempDir,
}

impl Browser {
    /// Starts a browser. `shell` is a `sh` that can reach the tested pages.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(mut shell: Command) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a folder for the browser")?;
        let (to, from) = (folder.path().join("to"), folder.path().join("from"));
        let made = Command::new("mkfifo").args([&to, &from]).status();
        ensure!(made.context("cannot run mkfifo")?.success(), "cannot make pipes");
        // The browser reads from 3 and writes to 4. As root it has no sandbox; the pages are our own.
        let script = format!(
            "exec {PROGRAM} --no-sandbox --disable-gpu --remote-debugging-pipe --user-data-dir=\"$1\" 3<\"$2\" 4>\"$3\""
        );
        let process = shell
            .args(["-c", &script, "sh"])
            .args([folder.path().join("profile").as_path(), &to, &from])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start the browser")?;
        let (answered, answers) = channel();
        // Opened for reading and writing, so that opening does not block if the browser does not start.
        let requests = OpenOptions::new().read(true).write(true).open(&to)?;
        let pipe = OpenOptions::new().read(true).write(true).open(&from)?;
        thread::spawn(move || {
            let mut pipe = BufReader::new(pipe);
            let mut message = Vec::new();
            while pipe.read_until(0, &mut message).is_ok_and(|read| read > 0) {
                message.pop();
                let sent = serde_json::from_slice(&message).map(|message| answered.send(message));
                if !matches!(sent, Ok(Ok(()))) {
                    return;
                }
                message.clear();
            }
        });
        let mut browser = Self {
            process,
            requests,
            answers,
            session: String::new(),
            sent: 0,
            complaints: Vec::new(),
            _folder: folder,
        };
        let target = browser.ask("Target.createTarget", &json!({"url": "about:blank"}))?;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.ask("Target.attachToTarget", &attach)?;
        session["sessionId"]
            .as_str()
            .unwrap_or_default()
            .clone_into(&mut browser.session);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.ask(domain, &json!({}))?;
        }
        Ok(browser)
    }

    /// Opens an address.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open(&mut self, address: &str) -> anyhow::Result<()> {
        let answer = self.ask("Page.navigate", &json!({"url": address}))?;
        match answer["errorText"].as_str() {
            Some(error) => bail!("cannot open {address}: {error}"),
            None => Ok(()),
        }
    }

    /// Sets the size of the window.
    ///
    /// # Errors
    /// There is no answer.
    pub fn resize(&mut self, width: u32, height: u32) -> anyhow::Result<()> {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.ask("Emulation.setDeviceMetricsOverride", &size).map(drop)
    }

    /// Sets the colour scheme that the user prefers.
    ///
    /// # Errors
    /// There is no answer.
    pub fn prefer(&mut self, scheme: &str) -> anyhow::Result<()> {
        let wanted = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.ask("Emulation.setEmulatedMedia", &wanted).map(drop)
    }

    /// Returns the value of a script on the page.
    ///
    /// # Errors
    /// The script fails, or there is no answer.
    pub fn say(&mut self, script: &str) -> anyhow::Result<Value> {
        let asked = json!({"expression": script, "returnByValue": true, "awaitPromise": true});
        let answer = self.ask("Runtime.evaluate", &asked)?;
        match answer.get("exceptionDetails") {
            Some(details) => bail!("{script}: {details}"),
            None => Ok(answer["result"]["value"].clone()),
        }
    }

    /// Waits until a script returns true.
    ///
    /// # Errors
    /// It does not in time; the error contains the page's text.
    pub fn wait_for(&mut self, script: &str, patience: Duration) -> anyhow::Result<()> {
        let start = Instant::now();
        loop {
            // Between two pages the script fails, because there is no page.
            let last = self.say(script);
            if last.as_ref().is_ok_and(|value| *value == true) {
                return Ok(());
            }
            if start.elapsed() > patience {
                let page = self.say("location.href + '\\n' + document.body.innerText")?;
                bail!("{script} is {last:?} on {}", page.as_str().unwrap_or_default());
            }
            thread::sleep(PAUSE);
        }
    }

    /// Presses Tab until the focused element matches a selector.
    ///
    /// # Errors
    /// The element cannot be reached by the keyboard.
    pub fn tab_to(&mut self, selector: &str) -> anyhow::Result<()> {
        let has_focus = format!("document.activeElement.matches({})", Value::from(selector));
        for _ in 0..MAX_KEYS {
            self.key("Tab", 9, "")?;
            if self.say(&has_focus)? == true {
                return Ok(());
            }
        }
        bail!("{MAX_KEYS} times Tab do not lead to {selector}")
    }

    /// Presses Enter.
    ///
    /// # Errors
    /// There is no answer.
    pub fn enter(&mut self) -> anyhow::Result<()> {
        self.key("Enter", 13, "\r")
    }

    fn key(&mut self, key: &str, code: u32, text: &str) -> anyhow::Result<()> {
        for type_ in ["keyDown", "keyUp"] {
            let mut event = json!({"type": type_, "key": key, "code": key, "windowsVirtualKeyCode": code});
            if type_ == "keyDown" && !text.is_empty() {
                event["text"] = text.into();
            }
            self.ask("Input.dispatchKeyEvent", &event)?;
        }
        Ok(())
    }

    /// Saves a screenshot of the whole page.
    ///
    /// # Errors
    /// It cannot be drawn or written.
    pub fn screenshot(&mut self, file: &Path) -> anyhow::Result<()> {
        let wanted = json!({"format": "png", "captureBeyondViewport": true});
        let answer = self.ask("Page.captureScreenshot", &wanted)?;
        let picture = STANDARD.decode(answer["data"].as_str().unwrap_or_default())?;
        ensure!(picture.starts_with(b"\x89PNG"), "the browser has drawn nothing");
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(file, picture).with_context(|| format!("cannot write {}", file.display()))
    }

    /// Returns exceptions of scripts, and violations of the page's policy.
    pub fn complaints(&self) -> &[String] {
        &self.complaints
    }

    fn ask(&mut self, method: &str, parameters: &Value) -> anyhow::Result<Value> {
        self.sent += 1;
        let mut message = json!({"id": self.sent, "method": method, "params": parameters});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.requests.write_all(format!("{message}\0").as_bytes())?;
        let start = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(start.elapsed());
            let answer = self.answers.recv_timeout(left);
            let answer = answer.map_err(|_| anyhow!("the browser does not answer {method}"))?;
            if answer["id"] == self.sent {
                return match answer.get("error") {
                    Some(error) => Err(anyhow!("{method}: {error}")),
                    None => Ok(answer["result"].clone()),
                };
            }
            self.note(&answer);
        }
    }

    fn note(&mut self, event: &Value) {
        let entry = &event["params"]["entry"];
        let is_refused = event["method"] == "Log.entryAdded" && entry["source"] == "security";
        if is_refused || event["method"] == "Runtime.exceptionThrown" {
            self.complaints.push(event["params"].to_string());
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser has no state to save.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
