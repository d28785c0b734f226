//! Repeated reads until a condition is reached, with the state shown as a tree or line by line.

use std::fmt::Debug;
use std::io::{self, IsTerminal as _, Write};
use std::time::Duration;

use anyhow::bail;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::{Api, Resource, ResourceExt as _};
use tokio::time::{Instant, sleep, timeout};

use crate::args::shared::WaitArgs;
use crate::operators::{Node, flat, lines};
use crate::reader::{Kind, answer};
use crate::terminal::{Colours, count, cut, escape, escape_painted, plain, size};
use crate::writer::subject;

/// Interval between reads.
const INTERVAL: Duration = Duration::from_secs(2);
/// Time for which a failed operator may recover before waiting ends. The user may have corrected the cause a moment ago.
const RECOVERY: Duration = Duration::from_secs(15);
/// Number of consecutive failures that ends the wait with an error.
const MAX_FAILURES: usize = 5;
/// Reasons between which the kubelet alternates, for a missing image and for a process that ends again and again.
const ALTERNATING: [(&str, &str); 2] = [
    ("ErrImagePull", "ImagePullBackOff"),
    ("CrashLoopBackOff", "Error, exit code "),
];

/// The state at one read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Look {
    /// The state: a tree for a terminal, else lines of which a new one is a change.
    pub lines: Vec<String>,
    /// Result that decides whether to continue.
    pub outcome: Outcome,
}

impl Look {
    /// Returns the state of a wait that ends when nothing is left, with one line for each object left.
    pub(crate) fn at_left(left: Vec<String>) -> Self {
        let outcome = match left.is_empty() {
            true => Outcome::Done,
            false => Outcome::Waits,
        };
        Self { lines: left, outcome }
    }
}

/// Result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The condition is reached.
    Done,
    /// The condition is not reached yet.
    Waits,
    /// The condition cannot be reached by waiting.
    Over,
}

/// Distinguishes a lasting failure from one that passes while OLM works.
#[derive(Debug, Default)]
pub(crate) struct Lasting(Option<Instant>);

impl Lasting {
    /// Returns true if every read for [`RECOVERY`] found a failure, this one included.
    pub(crate) fn is(&mut self, is_failure: bool) -> bool {
        match is_failure {
            true => self.0.get_or_insert_with(Instant::now).elapsed() >= RECOVERY,
            false => {
                self.0 = None;
                false
            }
        }
    }
}

/// Output for the state.
pub(crate) struct Screen<W> {
    to: W,
    colours: Colours,
    /// Lines and columns of a terminal.
    size: Option<(usize, usize)>,
    /// The lines of the last read; without a terminal as [`compared`] returns them.
    shown: Vec<String>,
    /// Number of lines on the terminal to overwrite.
    drawn: usize,
    /// True after a failed write.
    is_closed: bool,
    /// True if waiting ends when the output is closed.
    is_needed: bool,
}

impl<W: Write> Screen<W> {
    /// Returns an output that overwrites its previous lines if `size` is given.
    pub(crate) fn new(to: W, size: Option<(usize, usize)>) -> Self {
        Self {
            to,
            colours: Colours(false),
            size,
            shown: Vec::new(),
            drawn: 0,
            is_closed: false,
            is_needed: false,
        }
    }

    /// Returns the output for a command that only shows a state: waiting ends when the output is closed.
    pub(crate) fn needed(self) -> Self {
        Self {
            is_needed: true,
            ..self
        }
    }

    /// Draws a state, unless the output is closed.
    fn show(&mut self, look: &Look) {
        if !self.is_closed {
            self.is_closed = self.draw(look).is_err();
        }
    }

    fn draw(&mut self, look: &Look) -> io::Result<()> {
        let mut text = String::new();
        let Some((height, width)) = self.size else {
            let now: Vec<String> = look.lines.iter().map(|line| compared(line)).collect();
            let lines = look.lines.iter().zip(&now);
            for (line, _) in lines.filter(|(_, now)| !self.shown.contains(now)) {
                text.push_str(&escape(line));
                text.push('\n');
            }
            self.shown = now;
            return self.write(&text);
        };
        if look.lines == self.shown {
            return Ok(());
        }
        if self.drawn > 0 {
            text = format!("\u{1b}[{}A\r\u{1b}[J", self.drawn);
        }
        let room = height.saturating_sub(2).max(1);
        let lines = look.lines.iter().take(room).map(|line| escape_painted(line));
        let cut_lines = lines.map(|line| cut(&line, width.max(1)));
        let mut lines: Vec<String> = cut_lines.collect();
        if look.lines.len() > room {
            lines.push(format!("and {} more", count(look.lines.len() - room, "line")));
        }
        self.drawn = lines.len();
        self.shown.clone_from(&look.lines);
        for line in lines {
            text.push_str(&line);
            text.push('\n');
        }
        self.write(&text)
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.to.write_all(text.as_bytes())?;
        self.to.flush()
    }
}

/// Returns the part of a line that counts as news. It is the same for both reasons of a pair in [`ALTERNATING`], whose messages differ,
/// too.
fn compared(line: &str) -> String {
    for (first, second) in ALTERNATING {
        let found = [first, second]
            .into_iter()
            .filter_map(|reason| line.split_once(reason));
        if let Some(before) = found.map(|(before, _)| before).min_by_key(|before| before.len()) {
            return format!("{before}{first}");
        }
    }
    line.to_owned()
}

impl Screen<io::Stdout> {
    /// Returns stdout, for requested data.
    pub(crate) fn stdout() -> Self {
        Self {
            colours: Colours::of_stdout(),
            ..Self::new(io::stdout(), io::stdout().is_terminal().then(size))
        }
    }
}

impl Screen<io::Stderr> {
    /// Returns stderr, for progress.
    pub(crate) fn stderr() -> Self {
        Self {
            colours: Colours::of_stderr(),
            ..Self::new(io::stderr(), io::stderr().is_terminal().then(size))
        }
    }
}

/// Reads repeatedly until the result is done or over, or the limit is reached. A failure is shown and the read retried, except
/// for the first one. Without its output, waiting continues, except for a [`Screen::needed`].
///
/// # Errors
/// The first read fails, or [`MAX_FAILURES`] consecutive ones.
pub(crate) async fn until<W: Write>(
    screen: &mut Screen<W>,
    limit: Option<Duration>,
    mut look: impl AsyncFnMut() -> anyhow::Result<Look>,
) -> anyhow::Result<Outcome> {
    let start = Instant::now();
    let left = || limit.map(|limit| limit.saturating_sub(start.elapsed()));
    let mut last: Option<Look> = None;
    let mut failures = 0;
    loop {
        let answer = match left() {
            None => look().await,
            // The first read always has enough time.
            Some(left) => match timeout(left.max(INTERVAL), look()).await {
                Ok(answer) => answer,
                Err(_) => return Ok(Outcome::Waits),
            },
        };
        match answer {
            Ok(seen) => {
                failures = 0;
                screen.show(&seen);
                let is_unread = screen.is_needed && screen.is_closed;
                if is_unread || seen.outcome != Outcome::Waits {
                    return Ok(seen.outcome);
                }
                last = Some(seen);
            }
            Err(error) => {
                failures += 1;
                let Some(mut seen) = last.clone().filter(|_| failures < MAX_FAILURES) else {
                    return Err(error);
                };
                let text = plain(&format!("{error:#}"));
                seen.lines.push(format!("retrying: {text}"));
                screen.show(&seen);
            }
        }
        if left().is_some_and(|left| left.is_zero()) {
            return Ok(Outcome::Waits);
        }
        sleep(left().map_or(INTERVAL, |left| left.min(INTERVAL))).await;
    }
}

/// Result of watching objects.
#[derive(Debug)]
pub(crate) struct Watched {
    /// The last known state; empty if the cluster never answered.
    pub nodes: Vec<Node>,
    pub outcome: Outcome,
}

impl Watched {
    /// Returns the first object that is not ready.
    fn unready(&self) -> Option<&Node> {
        self.nodes.iter().find(|node| !node.is_fine())
    }

    /// Returns what the objects wait for.
    pub(crate) fn waits_for(&self) -> String {
        self.unready()
            .map_or_else(|| "no answer from the cluster".to_owned(), Node::waits_for)
    }

    /// Returns what is not as expected; `None` if everything is ready. The last known state may be ready although the cluster
    /// stopped responding.
    pub(crate) fn shortfall(&self, wait: &WaitArgs) -> Option<String> {
        let waits = self.waits_for();
        match self.outcome {
            Outcome::Done => None,
            Outcome::Waits => Some(format!("not ready after {} s: {waits}", wait.timeout().as_secs())),
            Outcome::Over => match self.unready().and_then(Node::way_out) {
                Some(way_out) => Some(format!("stopped waiting: {waits}; to resolve: {way_out}")),
                None => Some(format!("stopped waiting: {waits}")),
            },
        }
    }
}

/// Reads objects repeatedly like [`until`].
///
/// # Errors
/// Those of [`until`].
pub(crate) async fn follow<W: Write>(
    screen: &mut Screen<W>,
    limit: Option<Duration>,
    mut read: impl AsyncFnMut() -> anyhow::Result<(Vec<Node>, Outcome)>,
) -> anyhow::Result<Watched> {
    let (mut nodes, colours, is_terminal) = (Vec::new(), screen.colours, screen.size.is_some());
    let outcome = until(screen, limit, async || {
        let outcome;
        (nodes, outcome) = read().await?;
        let lines = match is_terminal {
            true => lines(&nodes, colours),
            false => flat(&nodes),
        };
        Ok(Look { lines, outcome })
    })
    .await?;
    Ok(Watched { nodes, outcome })
}

/// Waits for the deletion of objects, each given with its API and its name for users. Returns false at the time limit. `pending` is
/// what each object waits for.
///
/// # Errors
/// Those of [`until`].
pub(crate) async fn are_gone<K, W: Write>(
    going: &[(Api<K>, &K, String)],
    pending: &str,
    wait: &WaitArgs,
    screen: &mut Screen<W>,
) -> anyhow::Result<bool>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let outcome = until(screen, wait.limit(), async || {
        let mut left = Vec::new();
        for (api, object, subject) in going {
            let what = || format!("read {subject}");
            let found = answer(what, api.get_metadata_opt(&object.name_any())).await?;
            if found.is_some_and(|found| found.uid() == object.uid()) {
                left.push(format!("{subject}: waiting for {pending}"));
            }
        }
        Ok(Look::at_left(left))
    });
    Ok(outcome.await? == Outcome::Done)
}

/// Waits until an object that was deleted is gone.
///
/// # Errors
/// The time limit is reached, or those of [`until`].
pub(crate) async fn is_gone<K: Kind>(api: Api<K>, object: &K, wait: &WaitArgs) -> anyhow::Result<()> {
    let subject = subject(object);
    let going = [(api, object, subject.clone())];
    if are_gone(&going, "deletion", wait, &mut Screen::stderr()).await? {
        return Ok(());
    }
    bail!(
        "deletion of {subject} timed out after {} s; it continues in the background, use --timeout to wait longer",
        wait.timeout().as_secs()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(text: &str, outcome: Outcome) -> Look {
        Look {
            lines: vec![format!("look {text}"), "└─ below".to_owned()],
            outcome,
        }
    }

    async fn watched(
        size: Option<(usize, usize)>,
        limit: Option<Duration>,
        mut looks: Vec<anyhow::Result<Look>>,
    ) -> (String, anyhow::Result<Outcome>) {
        looks.reverse();
        let mut screen = Screen::new(Vec::new(), size);
        let result = until(&mut screen, limit, async || {
            looks.pop().unwrap_or_else(|| Ok(look("at last", Outcome::Waits)))
        })
        .await;
        (String::from_utf8(screen.to).unwrap(), result)
    }

    #[tokio::test(start_paused = true)]
    async fn elsewhere_than_on_a_terminal_a_change_is_a_line() {
        let looks = vec![
            Ok(look("a", Outcome::Waits)),
            Ok(look("a", Outcome::Waits)),
            Ok(look("b", Outcome::Done)),
        ];
        let (text, result) = watched(None, None, looks).await;
        assert_eq!(result.unwrap(), Outcome::Done);
        assert_eq!(text, "look a\n└─ below\nlook b\n");
    }

    /// A log would have a line every few seconds for as long as the image is missing.
    #[tokio::test(start_paused = true)]
    async fn reasons_that_alternate_are_one_line_until_something_else_is_said() {
        for (first, second) in [
            (
                "ErrImagePull (not found)",
                "ImagePullBackOff (Back-off: ErrImagePull: not found)",
            ),
            ("Error, exit code 1", "CrashLoopBackOff (back-off 10s restarting)"),
        ] {
            let pod = |text: &str, outcome: Outcome| -> anyhow::Result<Look> {
                let lines = vec![
                    format!("Pod a: container m: {text}"),
                    format!("Pod b: container m: {second}"),
                ];
                Ok(Look { lines, outcome })
            };
            let looks = vec![
                pod(first, Outcome::Waits),
                pod(second, Outcome::Waits),
                pod(first, Outcome::Waits),
                pod("OOMKilled, exit code 137", Outcome::Waits),
                pod(second, Outcome::Done),
            ];
            let (text, _) = watched(None, None, looks).await;
            let expected = [
                format!("Pod a: container m: {first}"),
                format!("Pod b: container m: {second}"),
                "Pod a: container m: OOMKilled, exit code 137".to_owned(),
                format!("Pod a: container m: {second}"),
            ];
            assert_eq!(text.lines().collect::<Vec<_>>(), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_terminal_is_drawn_over_where_something_changed_and_never_too_full() {
        let looks = vec![
            Ok(look("a", Outcome::Waits)),
            Ok(look("a", Outcome::Waits)),
            Ok(look("b", Outcome::Over)),
        ];
        let (text, result) = watched(Some((24, 6)), None, looks).await;
        assert_eq!(result.unwrap(), Outcome::Over);
        assert_eq!(text, "look a\n└─ be…\n\u{1b}[2A\r\u{1b}[Jlook b\n└─ be…\n");
        let (text, _) = watched(Some((3, 80)), None, vec![Ok(look("a", Outcome::Done))]).await;
        assert_eq!(text, "look a\nand 1 line more\n");
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_at_its_limit_also_when_no_answer_comes() {
        let start = Instant::now();
        let (text, result) = watched(None, Some(Duration::from_secs(30)), Vec::new()).await;
        assert_eq!(result.unwrap(), Outcome::Waits);
        assert_eq!(text, "look at last\n└─ below\n");
        assert!(
            start.elapsed() <= Duration::from_secs(30),
            "{:?}",
            start.elapsed()
        );

        let mut screen = Screen::new(Vec::new(), None);
        let never = async || std::future::pending::<anyhow::Result<Look>>().await;
        let start = Instant::now();
        let result = until(&mut screen, Some(Duration::from_secs(30)), never).await;
        assert_eq!(result.unwrap(), Outcome::Waits);
        assert!(
            start.elapsed() <= Duration::from_secs(31),
            "{:?}",
            start.elapsed()
        );
    }

    /// An output that nobody reads any more.
    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_output_ends_only_a_command_that_shows() {
        for (mut screen, expected) in [
            (Screen::new(Closed, None), Outcome::Done),
            (Screen::new(Closed, None).needed(), Outcome::Waits),
        ] {
            let mut looks = vec![look("b", Outcome::Done), look("a", Outcome::Waits)];
            let result = until(&mut screen, None, async || {
                Ok(looks.pop().unwrap_or_else(|| look("at last", Outcome::Waits)))
            });
            assert_eq!(result.await.unwrap(), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_read_is_reported_and_retried_but_not_forever() {
        let failed = || Err(anyhow::anyhow!("no \u{1b}route"));
        let looks = vec![
            Ok(look("a", Outcome::Waits)),
            failed(),
            Ok(look("a", Outcome::Done)),
        ];
        let (text, result) = watched(None, None, looks).await;
        assert_eq!(result.unwrap(), Outcome::Done);
        assert_eq!(text, "look a\n└─ below\nretrying: no \\u{1b}route\n");

        let (_, result) = watched(None, None, vec![failed()]).await;
        result.unwrap_err();
        let mut screen = Screen::new(Vec::new(), None);
        let mut is_first = true;
        let result = until(&mut screen, None, async || {
            if std::mem::take(&mut is_first) {
                return Ok(look("a", Outcome::Waits));
            }
            bail!("no route")
        });
        assert_eq!(result.await.unwrap_err().to_string(), "no route");
    }
}
