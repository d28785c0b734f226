//! Flags of programs that take the place of programs written in Go.

/// What Go takes for true; without a value the flag alone means it.
const TRUE: [&str; 7] = ["", "=1", "=t", "=T", "=true", "=TRUE", "=True"];
/// What Go takes for false.
const FALSE: [&str; 6] = ["=0", "=f", "=F", "=false", "=FALSE", "=False"];
/// What it refuses, though other libraries take it.
const REFUSED: [&str; 2] = ["yes", "tRUE"];

/// Asserts that `flag`, such as `--debug`, is true or not as every flag of Go's programs is. `read` gets it as typed, with its value if it
/// has one (`--debug=false`), and says whether it is then set, or with which words it is refused.
///
/// # Panics
/// When a value is taken for what it does not mean, a right one is refused, a wrong one is taken, or the words name neither value nor flag.
pub fn assert_switch_of_go(flag: &str, read: impl Fn(&str) -> Result<bool, String>) {
    for (values, meaning) in [(&TRUE[..], true), (&FALSE[..], false)] {
        for value in values {
            let given = format!("{flag}{value}");
            assert_eq!(read(&given), Ok(meaning), "{given}");
        }
    }
    for value in REFUSED {
        let given = format!("{flag}={value}");
        let answer = read(&given);
        let words = format!("'{value}' for '{flag}");
        assert!(
            matches!(&answer, Err(told) if told.contains(&words)),
            "{given}: {answer:?}"
        );
    }
}

#[cfg(test)]
mod tests {
    use go_compat::boolean;

    use super::*;

    fn as_go(given: &str) -> Result<bool, String> {
        let (flag, value) = given.split_once('=').unwrap_or((given, "true"));
        boolean::parse(value).map_err(|_| format!("invalid value '{value}' for '{flag}'"))
    }

    #[test]
    fn a_switch_of_go_is_one() {
        assert_switch_of_go("--debug", as_go);
    }

    #[test]
    #[should_panic(expected = "--debug=0")]
    fn a_switch_that_cannot_be_turned_off_is_none() {
        assert_switch_of_go("--debug", |given| as_go(given).map(|_| true));
    }

    #[test]
    #[should_panic(expected = "--debug=yes: Ok(true)")]
    fn a_switch_that_takes_more_values_is_none() {
        assert_switch_of_go("--debug", |given| as_go(given).or(Ok(true)));
    }

    #[test]
    #[should_panic(expected = "--debug=yes: Err")]
    fn a_switch_that_is_refused_without_its_name_is_none() {
        assert_switch_of_go("--debug", |given| as_go(given).map_err(|_| "no".to_owned()));
    }
}
