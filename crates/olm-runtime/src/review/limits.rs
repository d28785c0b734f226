//! What strangers may cost who answers them, and the API server behind that. `docs/reference/limits.md` lists what users meet.

use std::time::Duration;

/// How long an answer of the API server about who somebody is, or may do what, is believed.
pub const REVIEW_AGE: Duration = Duration::from_secs(10);
/// Such answers that are kept.
pub const KEPT_REVIEWS: usize = 4096;
/// Such questions that are asked at once.
pub const PARALLEL_REVIEWS: usize = 16;
/// Time for such an answer.
pub const REVIEW_TIME: Duration = Duration::from_secs(5);
/// Bytes of a bearer token.
pub const TOKEN_BYTES: usize = 16 << 10;
/// Tokens of strangers that are asked about at once.
pub const PARALLEL_STRANGERS: usize = 4;
/// Time that each of these takes at least.
pub const STRANGER_TIME: Duration = Duration::from_millis(200);
/// Tokens whose owners were let in, and who are strangers no more.
pub const KNOWN_TOKENS: usize = 256;
/// Such tokens of one owner; the ServiceAccounts of a namespace are one.
pub const KNOWN_TOKENS_EACH: usize = 16;
/// How long they are none.
pub const KNOWN_TIME: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use olm_testing::limits::{assert_listed, seconds};

    use super::*;

    #[test]
    fn the_reference_page_has_this_figure() {
        assert_listed(
            include_str!("../../../../docs/reference/limits.md"),
            &[(
                "Age of an answer about a token or a right",
                vec![seconds(REVIEW_AGE)],
            )],
        );
    }
}
