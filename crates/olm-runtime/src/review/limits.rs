//! Limits of what unknown clients may cost this process and the API server. `docs/reference/limits.md` lists those that users notice.

use std::time::Duration;

/// Lifetime of a cached answer of the API server about identity or permissions.
pub const REVIEW_AGE: Duration = Duration::from_secs(10);
/// Maximum number of cached answers per kind.
pub const KEPT_REVIEWS: usize = 4096;
/// Maximum number of parallel questions per kind.
pub const PARALLEL_REVIEWS: usize = 16;
/// Timeout of an answer.
pub const REVIEW_TIME: Duration = Duration::from_secs(5);
/// Maximum bytes of a bearer token.
pub const TOKEN_BYTES: usize = 16 << 10;

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
