//! Memory of processes in pods, read from `/proc`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::kubectl::{Destination, text};

/// Returns the process named `program` whose cgroup belongs to the pod.
pub fn find_process(program: &str, pod: &str) -> Option<PathBuf> {
    let processes = fs::read_dir("/proc").ok()?;
    processes
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .find(|path| {
            let read = |file: &str| fs::read_to_string(Path::new(path).join(file)).unwrap_or_default();
            read("comm").trim() == program.get(..15).unwrap_or(program) && read("cgroup").contains(pod)
        })
}

/// Returns the process of `program` in the first pod that `selector` matches.
///
/// # Errors
/// There is no such process.
pub(super) fn process_of(
    destination: &Destination,
    program: &str,
    namespace: &str,
    selector: &str,
) -> anyhow::Result<PathBuf> {
    let pods = destination
        .get(&["pod", "-n", namespace, "-l", selector])?
        .unwrap_or_default();
    let pod = text(&pods, "/items/0/metadata/uid");
    find_process(program, pod).with_context(|| format!("no process of {program} in pod {pod}"))
}

/// Returns the process of one of OLM's programs.
///
/// # Errors
/// There is no such process.
pub(super) fn process_of_olm(destination: &Destination, program: &str) -> anyhow::Result<PathBuf> {
    process_of(destination, program, "olm", &format!("app={program}"))
}

/// Returns a field of a process's `status` that is in kB, converted to MiB.
///
/// # Errors
/// The process has exited.
pub(super) fn field(process: &Path, name: &str) -> anyhow::Result<f64> {
    let status = fs::read_to_string(process.join("status"))
        .with_context(|| format!("{} has ended", process.display()))?;
    Ok(kib(&status, name) as f64 / 1024.0)
}

fn kib(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let digits = line.unwrap_or_default().trim_matches([':', '\t', ' ', 'k', 'B']);
    digits.parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_read_by_its_name() {
        let status = "Name:\tx\nVmRSS:\t   13600 kB\nRssAnon:\t    4400 kB\n";
        assert_eq!((kib(status, "RssAnon"), kib(status, "VmHWM")), (4400, 0));
        assert!(field(Path::new("/proc/self"), "VmRSS").unwrap() > 0.1);
    }
}
