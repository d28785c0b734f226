//! Tokens, which a registry with a token service accepts instead of credentials.
//!
//! The refusal names the service (`WWW-Authenticate: Bearer`), which issues a token for the repository. It
//! does so anonymously, for name and password, or for an identity token. `docker login` keeps an identity
//! token for registries whose users sign in elsewhere. An identity token is not a password and is sent to the
//! service alone. Source: the distribution project's token specification.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, StatusCode};
use http_auth::parser::ChallengeParser;
use reqwest::Url;
use serde::Deserialize;

use super::failure::{Failure, malformed};
use super::wire::{Request, Wire, parse_url};
use crate::credential::Credential;
use crate::error::PullErrorClass;
use crate::host::Host;
use crate::limits::TOKEN_BYTES;

/// Client name in token requests; services log it.
const CLIENT_ID: &str = "olm-oci";

/// The address of a token service, and the service that its tokens are for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TokenService {
    realm: Url,
    service: String,
}

#[derive(Deserialize)]
struct TokenResponse {
    #[serde(default)]
    access_token: String,
    #[serde(default)]
    token: String,
}

/// Scope of a token.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) host: &'a Host,
    pub(super) repository: &'a str,
    /// `pull` or `pull,push`.
    pub(super) actions: &'a str,
}

impl Scope<'_> {
    /// Splits a configured path: the part after `/v2` belongs to the repository's name, the part before to
    /// the registry.
    fn split_path(&self) -> (&str, &str) {
        match self.host.path.split_once("/v2") {
            Some((before, behind)) if behind.is_empty() || behind.starts_with('/') => {
                (before, behind.trim_matches('/'))
            }
            _ => (self.host.path.as_str(), ""),
        }
    }

    /// Returns the address whose refusal has a challenge, if the registry wants tokens.
    fn base(&self) -> Result<Url, Failure> {
        parse_url(&format!("{}{}/v2/", self.host.origin(), self.split_path().0))
    }

    fn text(&self) -> String {
        let prefix = match self.split_path().1 {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        };
        format!("repository:{prefix}{}:{}", self.repository, self.actions)
    }
}

/// Returns the `Authorization` header for a credential after a refusal with `challenge` headers. `None` if
/// this credential cannot give what the registry asks for.
///
/// # Errors
/// The registry or token service cannot be reached, asks for something else, or refuses. Its answer is not
/// repeated: it could hold the credential.
pub(super) async fn authorization(
    wire: &Wire,
    scope: Scope<'_>,
    challenge: &HeaderMap,
    credential: Option<&Credential>,
) -> Result<Option<HeaderValue>, Failure> {
    if let Some(Credential::Bearer(token)) = credential {
        return header(&format!("Bearer {token}")).map(Some);
    }
    let mut service = TokenService::named_in(challenge);
    if service.is_none() {
        let answer = wire.send(&Request::get(scope.base()?), None).await?;
        if answer.status() == StatusCode::UNAUTHORIZED && wire.is_home(answer.url()) {
            service = TokenService::named_in(answer.headers());
        }
    }
    match (service, credential) {
        (Some(service), credential) => {
            let token = fetch(wire, scope, &service, credential).await?;
            header(&format!("Bearer {token}")).map(Some)
        }
        (None, Some(Credential::Basic { username, password })) => basic(username, password).map(Some),
        (None, Some(Credential::Identity(_))) => Err(refused(
            "the registry has no token service that accepts the identity token",
        )),
        (None, Some(Credential::Bearer(_)) | None) => Ok(None),
    }
}

async fn fetch(
    wire: &Wire,
    scope: Scope<'_>,
    service: &TokenService,
    credential: Option<&Credential>,
) -> Result<String, Failure> {
    // An eavesdropper could use the credential permanently.
    if credential.is_some() && service.realm.scheme() != "https" && !scope.host.plain_http {
        return Err(refused(
            "the token service does not use https, so the credentials were not sent",
        ));
    }
    let wanted = scope.text();
    let (request, shown) = match credential {
        Some(Credential::Identity(identity)) => {
            let body = form(&[
                ("grant_type", "refresh_token"),
                ("service", &service.service),
                ("client_id", CLIENT_ID),
                ("scope", &wanted),
                ("refresh_token", identity),
            ]);
            let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
            let request = Request::sending(Method::POST, service.realm.clone(), body.into(), kind);
            (request, None)
        }
        other => {
            let mut url = service.realm.clone();
            if !service.service.is_empty() {
                url.query_pairs_mut().append_pair("service", &service.service);
            }
            url.query_pairs_mut().append_pair("scope", &wanted);
            let shown = match other {
                Some(Credential::Basic { username, password }) => Some(basic(username, password)?),
                _ => None,
            };
            (Request::get(url), shown)
        }
    };
    let answer = wire.send(&request, shown.as_ref()).await?;
    let status = answer.status();
    if !status.is_success() {
        let (class, what) = match status {
            StatusCode::TOO_MANY_REQUESTS => (PullErrorClass::Unreachable, "is rate limiting"),
            status if status.is_server_error() => (PullErrorClass::Unreachable, "failed"),
            _ => (PullErrorClass::Unauthorized, "rejected the credentials"),
        };
        let detail = format!("the registry's token service {what} (HTTP {})", status.as_u16());
        return Err(Failure::new(class, detail));
    }
    let body = answer.whole(TOKEN_BYTES).await.map_err(|failure| Failure {
        detail: format!("the registry's token service: {}", failure.detail),
        ..failure
    })?;
    let answer: TokenResponse = serde_json::from_slice(&body)
        .map_err(|_| malformed("the response of the token service is not JSON".to_owned()))?;
    [answer.access_token, answer.token]
        .into_iter()
        .find(|token| !token.is_empty())
        .ok_or_else(|| malformed("the response of the token service has no token".to_owned()))
}

fn basic(username: &str, password: &str) -> Result<HeaderValue, Failure> {
    header(&format!(
        "Basic {}",
        STANDARD.encode(format!("{username}:{password}"))
    ))
}

fn header(text: &str) -> Result<HeaderValue, Failure> {
    let mut value =
        HeaderValue::from_str(text).map_err(|_| refused("a credential or token has invalid characters"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn refused(detail: &str) -> Failure {
    Failure::new(PullErrorClass::Unauthorized, detail)
}

impl TokenService {
    /// Returns the first `Bearer` challenge with a usable realm.
    fn named_in(headers: &HeaderMap) -> Option<Self> {
        headers
            .get_all(WWW_AUTHENTICATE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(ChallengeParser::new)
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
                let realm = Url::parse(&parameter("realm")?).ok()?;
                matches!(realm.scheme(), "http" | "https").then(|| Self {
                    realm,
                    service: parameter("service").unwrap_or_default(),
                })
            })
    }
}

/// Returns the fields encoded as a form.
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
    use crate::limits::Limits;
    use crate::transport::client::{install_tls_provider, tests::host};

    #[test]
    fn the_token_service_is_found_among_challenges() {
        let found = |challenges: &[&str]| {
            let mut headers = HeaderMap::new();
            for text in challenges {
                headers.append(WWW_AUTHENTICATE, HeaderValue::from_str(text).expect("header"));
            }
            TokenService::named_in(&headers).map(|found| (found.realm.to_string(), found.service))
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
            r#"Bearer realm="file:///etc/passwd""#,
            "\"",
            "",
        ] {
            assert_eq!(found(&[none]), None, "{none}");
        }
    }

    /// The service's address has no listener, so a request that is sent there fails in another way.
    #[tokio::test]
    async fn credentials_go_to_token_services_over_https_only() {
        install_tls_provider();
        let mut headers = HeaderMap::new();
        let challenge = "Bearer realm=\"http://127.0.0.1:1/token\"";
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        let fails = async |plain_http: bool, credential: Option<Credential>| {
            let host = Host {
                plain_http,
                ..host("/v2")
            };
            let wire = Wire::new(&host, Limits::BUNDLE).expect("wire");
            let scope = Scope {
                host: &host,
                repository: "a/b",
                actions: "pull",
            };
            let failed = authorization(&wire, scope, &headers, credential.as_ref()).await;
            failed.expect_err("nobody listens")
        };
        let (username, password) = ("user".to_owned(), "secret".to_owned());
        for credential in [
            Credential::Basic { username, password },
            Credential::Identity("secret".into()),
        ] {
            let refused = fails(false, Some(credential.clone())).await;
            assert_eq!(refused.class, PullErrorClass::Unauthorized, "{refused:?}");
            assert!(refused.detail.contains("is not https"), "{refused:?}");
            let sent = fails(true, Some(credential)).await;
            assert_eq!(sent.class, PullErrorClass::Unreachable, "{sent:?}");
        }
        let anonymous = fails(false, None).await;
        assert_eq!(anonymous.class, PullErrorClass::Unreachable, "{anonymous:?}");
    }

    #[test]
    fn forms_are_encoded() {
        assert_eq!(
            form(&[("a", "b c&d=e"), ("f", "é/:")]),
            "a=b+c%26d%3De&f=%C3%A9%2F%3A"
        );
    }

    #[test]
    fn a_configured_path_is_split_at_the_api_version() {
        for (path, base, scope) in [
            ("/v2", "https://m:5000/v2/", "repository:a/b:pull"),
            ("/v2/cache", "https://m:5000/v2/", "repository:cache/a/b:pull"),
            ("/proxy/v2", "https://m:5000/proxy/v2/", "repository:a/b:pull"),
            ("", "https://m:5000/v2/", "repository:a/b:pull"),
        ] {
            let host = host(path);
            let asked = Scope {
                host: &host,
                repository: "a/b",
                actions: "pull",
            };
            assert_eq!(asked.base().expect("URL").as_str(), base, "{path}");
            assert_eq!(asked.text(), scope, "{path}");
        }
    }
}
