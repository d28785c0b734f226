//! Results of the test programs of a run.

/// Results that are repeated at the end of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Results {
    /// Names of the failed tests, with their modules.
    pub failed: Vec<String>,
    /// Summary lines in order.
    pub summaries: Vec<String>,
}

impl Results {
    /// Records a line of a test program's output. Summaries of programs in which no test ran are left out.
    pub(crate) fn read_line(&mut self, line: &str) {
        if line.starts_with("test result:") && !line.contains(" 0 passed; 0 failed;") {
            self.summaries.push(line.to_owned());
        } else if let Some((name, outcome)) = line
            .strip_prefix("test ")
            .and_then(|rest| rest.split_once(" ... "))
            && outcome.starts_with("FAILED")
        {
            self.failed.push(name.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargos_lines_are_understood() {
        let mut results = Results::default();
        for line in [
            "running 3 tests",
            "test a::b ... ok",
            "test c ... FAILED",
            "test d ... ignored, needs a printer",
            "test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 9 filtered out; finished in 0.00s",
        ] {
            results.read_line(line);
        }
        assert_eq!(results.failed, ["c"]);
        assert_eq!(results.summaries.len(), 1);
    }
}
