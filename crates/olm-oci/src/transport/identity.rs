//! Identity tokens: what `docker login` keeps of registries whose users sign in elsewhere.
//!
//! Such a token is no password. The registry's token service takes it (grant type `refresh_token`) and gives one for the
//! repository in its place. `oci-client` does not know this exchange.

use http::StatusCode;
use http::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use http_auth::parser::ChallengeParser;
use reqwest::Url;
use serde::Deserialize;

use super::failure::{Failure, accept_response, malformed, transport_failure};
use super::read_whole;
use crate::error::PullErrorClass;
use crate::registry_config::Host;

/// Answers of token services are a few kilobytes.
const MOST_BYTES: u64 = 256 << 10;
/// The name under which we ask; services log it.
const CLIENT_ID: &str = "olm-oci";

/// Where tokens are had, and for which service.
#[derive(Debug, PartialEq, Eq)]
struct TokenService {
    realm: Url,
    service: String,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    access_token: String,
    #[serde(default)]
    token: String,
}

/// A bearer token for `repository` of `host` in exchange for an identity token, good for `actions` (`pull`, `pull,push`).
///
/// # Errors
/// Registry or token service are out of reach, want something else, or refuse the identity token. Its text is never told.
pub(crate) async fn exchange(
    client: &reqwest::Client,
    host: &Host,
    repository: &str,
    actions: &str,
    identity: &str,
) -> Result<String, Failure> {
    let answer = client
        .get(format!("{}/v2/", host.origin()))
        .send()
        .await
        .map_err(|error| transport_failure(&error))?;
    let challenges: Vec<&str> = answer
        .headers()
        .get_all(WWW_AUTHENTICATE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .collect();
    let service = match answer.status() {
        StatusCode::UNAUTHORIZED => TokenService::named_in(&challenges),
        _ => None,
    }
    .ok_or_else(|| refused("the registry names no token service that takes the identity token"))?;
    // Whoever listens on the way could use the token for good.
    if service.realm.scheme() != "https" && !host.plain_http {
        return Err(refused(
            "the token service is not https; the identity token was not sent",
        ));
    }
    let scope = format!("repository:{repository}:{actions}");
    let body = form(&[
        ("grant_type", "refresh_token"),
        ("service", &service.service),
        ("client_id", CLIENT_ID),
        ("scope", &scope),
        ("refresh_token", identity),
    ]);
    let response = client
        .post(service.realm)
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .body(body)
        .send()
        .await
        .map_err(|error| transport_failure(&error))?;
    let body = read_whole(accept_response(response).await?, MOST_BYTES).await?;
    let answer: Answer = serde_json::from_slice(&body)
        .map_err(|_| malformed("the token service's answer is not JSON".to_owned()))?;
    [answer.access_token, answer.token]
        .into_iter()
        .find(|token| !token.is_empty())
        .ok_or_else(|| malformed("the token service's answer has no token".to_owned()))
}

fn refused(detail: &str) -> Failure {
    Failure::new(PullErrorClass::Unauthorized, detail)
}

impl TokenService {
    /// The first `Bearer` challenge with a usable realm.
    fn named_in(challenges: &[&str]) -> Option<Self> {
        challenges
            .iter()
            .flat_map(|text| ChallengeParser::new(text))
            .filter_map(Result::ok)
            .filter(|challenge| challenge.scheme.eq_ignore_ascii_case("bearer"))
            .find_map(|challenge| {
                let parameter = |wanted: &str| {
                    challenge
                        .params
                        .iter()
                        .find(|(name, _)| name.eq_ignore_ascii_case(wanted))
                        .map(|(_, value)| value.to_unescaped())
                };
                Some(Self {
                    realm: Url::parse(&parameter("realm")?).ok()?,
                    service: parameter("service").unwrap_or_default(),
                })
            })
    }
}

/// Fields as a form is sent.
fn form(fields: &[(&str, &str)]) -> String {
    let mut url = Url::parse("form:").ok();
    if let Some(url) = &mut url {
        url.query_pairs_mut().extend_pairs(fields);
    }
    url.and_then(|url| url.query().map(str::to_owned))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_service_is_found_among_challenges() {
        let found = |challenges: &[&str]| {
            TokenService::named_in(challenges).map(|found| (found.realm.to_string(), found.service))
        };
        let expected = Some(("https://a.io/oauth2/token?x=1".to_owned(), "a.io".to_owned()));
        let bearer =
            r#"Bearer realm="https://a.io/oauth2/token?x=1",service="a.io",scope="repository:a:pull""#;
        assert_eq!(found(&[bearer]), expected);
        assert_eq!(found(&[r#"Basic realm="x""#, bearer]), expected);
        assert_eq!(found(&[&format!(r#"Basic realm="x", {bearer}"#)]), expected);
        assert_eq!(
            found(&[r#"bearer realm="https://b.io/""#]),
            Some(("https://b.io/".to_owned(), String::new()))
        );
        for none in [
            r#"Basic realm="x""#,
            "Bearer",
            r#"Bearer realm="no url""#,
            "\"",
            "",
        ] {
            assert_eq!(found(&[none]), None, "{none}");
        }
    }

    #[test]
    fn forms_are_encoded() {
        assert_eq!(
            form(&[("a", "b c&d=e"), ("f", "é/:")]),
            "a=b+c%26d%3De&f=%C3%A9%2F%3A"
        );
    }
}
