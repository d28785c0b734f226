//! `kubectl operator ui` in a real browser: log in by the link, view an operator, approve its plan by keyboard, and watch it run.
//! Screenshots are kept in `target/screenshots`. The tests follow `docs/guides/ui.md`.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::browser::{Browser, ensure_installed};
use e2e::demo::{FIRST, SECOND, install};
use e2e::lab::{Lab, Namespace, PATIENCE};
use e2e::plugin;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use xtask::demo::PACKAGE;
use xtask::workspace;

/// Timeout for a page of data that is already loaded.
const SOON: Duration = Duration::from_secs(30);

/// The served pages of a namespace.
struct Pages {
    process: Child,
    link: String,
}

impl Pages {
    fn serve(namespace: &Namespace<'_>, plugin: &Path) -> anyhow::Result<Self> {
        let mut process = Lab::shared()?
            .cluster()
            .command(plugin)
            .args(["ui", "-n", namespace.name()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot run the plugin")?;
        let output = process.stdout.take().context("its output was not captured")?;
        let mut link = String::new();
        BufReader::new(output).read_line(&mut link)?;
        Ok(Self {
            process,
            link: link.trim().to_owned(),
        })
    }

    /// Sends Ctrl-C.
    fn end(mut self) -> anyhow::Result<()> {
        let id = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        kill_process(id.context("it has no process")?, Signal::INT)?;
        let status = self.process.wait()?;
        ensure!(status.success(), "the plugin ended with {status}");
        Ok(())
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn picture(name: &str) -> PathBuf {
    workspace::target()
        .join("screenshots")
        .join(format!("{name}.png"))
}

fn shows(text: &str) -> String {
    let text = serde_json::Value::from(text);
    format!("document.getElementById('main').innerText.includes({text})")
}

/// Replaces the page's answers from now on, and counts its requests.
fn answered(browser: &mut Browser, answer: &str) -> anyhow::Result<()> {
    let script = format!(
        "window.real ??= window.fetch; window.asked = 0; window.fetch = async () => {{ window.asked++; {answer} }}; true"
    );
    browser.say(&script).map(drop)
}

fn notice(text: &str) -> String {
    let text = serde_json::Value::from(text);
    format!("document.getElementById('notice').innerText.includes({text})")
}

/// A plan is unchanged after a moment in which it could not be read.
fn hiccups(browser: &mut Browser) -> anyhow::Result<()> {
    let page = |status: u16, text: &str| {
        let main = format!("<p class=message>{text}</p>");
        format!(
            "const seal = document.documentElement.dataset.seal; \
             return new Response(`<html data-seal=\"${{seal}}\"><main id=main>{main}</main>`, {{status: {status}}});"
        )
    };
    answered(browser, &page(502, "no route to it"))?;
    browser.wait_for(&notice("no route to it"), SOON)?;
    answered(browser, "return new Response('', {status: 504});")?;
    browser.wait_for(&notice("The cluster did not respond."), SOON)?;
    ensure!(browser.say("document.getElementById('approve').disabled")? == false);
    browser.say("window.fetch = window.real; true")?;
    browser.wait_for("document.getElementById('notice').hidden", SOON)
}

/// Main pages by name of their pictures; `{}` is the namespace.
const PAGES: [(&str, &str); 7] = [
    ("operators", "operators?namespace={}"),
    ("operator", "operator?namespace={}&name=demo"),
    ("packages", "catalog?namespace={}"),
    (
        "package",
        "package?namespace={}&catalog={}/catalog&name=demo-operator",
    ),
    ("catalogs", "catalogs?namespace={}"),
    ("explain", "explain?namespace={}&name=demo"),
    (
        "graph",
        "graph?namespace={}&catalog={}/catalog&name=demo-operator",
    ),
];
/// Widths of a telephone, a laptop and a wide screen, with heights.
const SIZES: [(u32, u32); 3] = [(390, 844), (1280, 800), (1920, 1080)];

/// Number of cells that are not to wrap and have more than one line.
const WRAPPED: &str = "[...document.querySelectorAll('.rows .short')].filter(cell => { const range = document.createRange(); \
    range.selectNodeContents(cell); return range.getBoundingClientRect().height > 40; }).length";

/// No page is wider than its window, in three widths and both colour schemes; short cells are on one line, and the drawing shows the
/// installed version and the head.
fn looks(browser: &mut Browser, namespace: &str) -> anyhow::Result<()> {
    for (name, page) in PAGES {
        let page = page.replace("{}", namespace);
        browser.say(&format!("window.isOld = true; location.assign({})", json!(page)))?;
        browser.wait_for("!window.isOld && document.readyState == 'complete'", SOON)?;
        ensure!(
            browser.say(
                "document.querySelector('h1') !== null && document.querySelector('.message') === null"
            )? == true,
            "{name} has its page"
        );
        let mut papers = Vec::new();
        for (width, height) in SIZES {
            browser.resize(width, height)?;
            for scheme in ["light", "dark"] {
                browser.prefer(scheme)?;
                let wide = browser.say("document.documentElement.scrollWidth - innerWidth")?;
                let fits = wide.as_i64().is_some_and(|wide| wide <= 0);
                ensure!(fits, "{name} is {wide} too wide at {width}");
                papers.push(browser.say("getComputedStyle(document.body).color")?);
                browser.screenshot(&picture(&format!("{name}-{width}-{scheme}")))?;
            }
            ensure!(papers[0] != papers[1], "{name} has one colour scheme");
            // On a telephone the cells of a row are below each other, and may wrap.
            let wrapped = browser.say(WRAPPED)?;
            ensure!(
                width < 1000 || wrapped == 0,
                "{name} wraps {wrapped} short cells at {width}"
            );
        }
    }
    // The last page is the drawing; the places are seen in it as it opened.
    for (width, height) in SIZES {
        browser.resize(width, height)?;
        browser.say("window.isOld = true; location.reload()")?;
        browser.wait_for("!window.isOld && document.readyState == 'complete'", SOON)?;
        let hidden = browser.say(
            "(() => { const frame = document.querySelector('.drawing').getBoundingClientRect(); \
             return [...document.querySelectorAll('.drawing .node.installed, .drawing .node.head')] \
             .map(node => node.getBoundingClientRect()) \
             .filter(at => at.top < frame.top || at.bottom > frame.bottom || at.left < frame.left || at.right > frame.right).length; })()",
        )?;
        assert_eq!(hidden, 0, "at {width}");
    }
    browser.prefer("")?;
    browser.resize(1200, 800)
}

/// A stranger's server on the port, after the plugin has exited, is neither displayed nor queried again.
fn strangers(browser: &mut Browser, namespace: &str) -> anyhow::Result<()> {
    for (answer, expected) in [
        (
            "return new Response('<main id=main>Log in here</main>');",
            "no longer served to you",
        ),
        ("return new Response('Log in here');", "no longer served to you"),
        (
            "return new Response('no', {status: 403});",
            "no longer served to you",
        ),
        (
            "throw new TypeError('refused');",
            "does not respond. Start it again",
        ),
    ] {
        browser.say(&format!(
            "window.isOld = true; location.assign('operators?namespace={namespace}')"
        ))?;
        let is_there =
            "location.pathname.endsWith('/operators') && !window.isOld && document.readyState == 'complete'";
        browser.wait_for(is_there, SOON)?;
        answered(browser, answer)?;
        browser.wait_for(&notice(expected), SOON)?;
        ensure!(
            browser.say("document.body.innerText.includes('Log in here')")? == false,
            "{answer}"
        );
        // Longer than the pause between two requests.
        browser.say("new Promise(done => setTimeout(done, 4000))")?;
        assert_eq!(browser.say("window.asked")?, 1, "{answer}");
    }
    Ok(())
}

#[test]
fn an_operator_is_looked_at_and_approved_in_a_browser() -> anyhow::Result<()> {
    ensure_installed()?;
    let lab = Lab::shared()?;
    let namespace = lab.namespace("ui")?;
    install(&namespace, &[namespace.name()], |wanted| {
        wanted["spec"]["installPlanApproval"] = json!("Manual");
        wanted["spec"]["startingCSV"] = json!(FIRST);
    })?;
    let plan = namespace.wait_for_plan(FIRST, "RequiresApproval")?;
    let pages = Pages::serve(&namespace, plugin::program()?)?;
    let mut browser = Browser::start(lab.cluster().command("sh"))?;
    browser.resize(1200, 800)?;

    // The link works once.
    browser.open(&pages.link)?;
    browser.wait_for("location.pathname.endsWith('/operators')", SOON)?;
    browser.wait_for(&shows("RequiresApproval"), SOON)?;
    browser.screenshot(&picture("operators"))?;
    let again = format!("fetch({}).then(answer => answer.status)", json!(pages.link));
    assert_eq!(browser.say(&again)?, 403);
    assert_eq!(browser.say("document.cookie")?, "", "no script sees the cookie");

    // To the plan and its button by keyboard, in a narrow window.
    browser.tab_to("a[id^=plan-]")?;
    browser.enter()?;
    browser.wait_for("location.pathname.endsWith('/plan')", SOON)?;
    for text in [plan.as_str(), FIRST, "Permissions gained", "Objects it creates"] {
        browser.wait_for(&shows(text), SOON)?;
    }
    browser.screenshot(&picture("plan"))?;
    browser.resize(360, 740)?;
    browser.wait_for("document.documentElement.scrollWidth <= innerWidth", SOON)?;
    browser.screenshot(&picture("plan-narrow"))?;
    hiccups(&mut browser)?;
    ensure!(
        namespace.own_csvs()?.is_empty(),
        "nobody has approved anything yet"
    );
    browser.tab_to("#approve")?;
    browser.enter()?;
    browser.wait_for(&shows("This plan is approved."), SOON)?;

    // The result is visible without reloading the page.
    let operator = format!(
        "location.assign('operator?namespace={}&name=demo')",
        namespace.name()
    );
    browser.say(&operator)?;
    browser.wait_for(
        "location.pathname.endsWith('/operator') && document.readyState == 'complete'",
        SOON,
    )?;
    browser.say("window.isTheSame = true")?;
    browser.wait_for(&shows("Review the pending plan"), PATIENCE)?;
    namespace.wait_for_phase(FIRST, "Succeeded")?;
    browser.wait_for(&shows(SECOND), PATIENCE)?;
    browser.wait_for(&shows("Succeeded"), PATIENCE)?;
    assert_eq!(browser.say("window.isTheSame")?, true);
    browser.wait_for("document.documentElement.scrollWidth <= innerWidth", SOON)?;
    browser.screenshot(&picture("operator-narrow"))?;
    browser.resize(1200, 800)?;
    browser.screenshot(&picture("operator"))?;

    // The reason, and the next steps; the graph with the installed version.
    browser.tab_to("#explain")?;
    browser.enter()?;
    browser.wait_for(&shows("What OLM is going to do"), PATIENCE)?;
    browser.screenshot(&picture("explain"))?;
    let graph = format!(
        "location.assign('graph?namespace={0}&catalog={0}/catalog&name={PACKAGE}')",
        namespace.name()
    );
    browser.say(&graph)?;
    browser.wait_for(
        "document.querySelectorAll('svg[role=img] .node.installed').length > 0",
        PATIENCE,
    )?;
    let command = format!(
        "kubectl operator graph {PACKAGE} --catalog {0}/catalog -n {0}",
        namespace.name()
    );
    browser.wait_for(&shows(&command), SOON)?;
    browser.wait_for("document.documentElement.scrollWidth <= innerWidth", SOON)?;
    browser.screenshot(&picture("graph"))?;
    looks(&mut browser, namespace.name())?;
    strangers(&mut browser, namespace.name())?;
    assert_eq!(
        browser.complaints(),
        [""; 0],
        "no policy was broken, no script failed"
    );
    pages.end()
}
