//! Checks of flags of programs that replace programs written in Go.

/// Values that Go parses as true; the flag alone means true.
const TRUE: [&str; 7] = ["", "=1", "=t", "=T", "=true", "=TRUE", "=True"];
/// Values that Go parses as false.
const FALSE: [&str; 6] = ["=0", "=f", "=F", "=false", "=FALSE", "=False"];
/// Values that Go refuses although other libraries accept them.
const REFUSED: [&str; 2] = ["yes", "tRUE"];

/// Asserts that `flag`, such as `--debug`, is parsed like a boolean flag of Go. `read` gets it as typed, with its value if it has one
/// (`--debug=false`). It returns whether the flag is set, or the error text.
///
/// # Panics
/// If a value is parsed wrongly, a valid one is refused or an invalid one accepted, or the error does not name value and flag.
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
