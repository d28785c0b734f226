//! Access control for requests. Pure, with random values as input.
//!
//! Any web page can make a browser send requests to the loopback address, and any host name can point there. Other users of the
//! machine can reach it as well. So a request must name this address, carry the session cookie, and come from a page of this
//! server. A write also names the hash of what was shown, which is for [`routes`](super::routes) to compare.
//!
//! Cookies ignore ports, so another server on 127.0.0.1 would receive ours. Therefore the cookie is limited to a random path.

use std::cell::Cell;

use anyhow::anyhow;
use blake3::Hash;
use hyper::{Method, StatusCode};

/// Path at which the token is exchanged for a cookie.
pub(super) const LOGIN: &str = "/login";
const COOKIE: &str = "kubectl-operator-ui";

/// 32 random bytes.
pub(super) type Secret = [u8; 32];

/// Returns a new secret.
///
/// # Errors
/// The system provides no randomness.
pub(super) fn random() -> anyhow::Result<Secret> {
    let mut secret = Secret::default();
    let source = rustls::crypto::ring::default_provider().secure_random;
    source
        .fill(&mut secret)
        .map_err(|_| anyhow!("cannot get random numbers from the system"))?;
    Ok(secret)
}

fn hex(secret: Secret) -> String {
    Hash::from_bytes(secret).to_hex().to_string()
}

/// Compares in constant time.
fn is_same(given: &str, secret: Secret) -> bool {
    // Hashes compare in constant time.
    blake3::hash(given.as_bytes()) == blake3::hash(hex(secret).as_bytes())
}

/// The parts of a request that access depends on.
#[derive(Debug, Clone, Default)]
pub(super) struct Asked<'a> {
    pub method: Method,
    pub path: &'a str,
    pub host: Option<&'a str>,
    pub origin: Option<&'a str>,
    /// `Sec-Fetch-Site`: the browser's relation between the requesting page and this server. No page can set it.
    pub fetch_site: Option<&'a str>,
    /// `Sec-Purpose`: set if the browser prefetches a page.
    pub purpose: Option<&'a str>,
    pub cookie: Option<&'a str>,
}

/// Error response to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refusal {
    pub status: StatusCode,
    pub text: &'static str,
}

const fn refused(status: StatusCode, text: &'static str) -> Refusal {
    Refusal { status, text }
}

const OTHER_HOST: Refusal = refused(
    StatusCode::MISDIRECTED_REQUEST,
    "This server only answers to 127.0.0.1 and localhost with its port.",
);
const NO_SESSION: Refusal = refused(
    StatusCode::FORBIDDEN,
    "Open the link that kubectl operator ui printed. It works once; for another browser, start the command again.",
);
const OTHER_SITE: Refusal = refused(StatusCode::FORBIDDEN, "Request from another site rejected.");
const NO_METHOD: Refusal = refused(
    StatusCode::METHOD_NOT_ALLOWED,
    "Only pages and forms are supported.",
);
pub(super) const FORGED: Refusal = refused(
    StatusCode::FORBIDDEN,
    "This form is outdated; open the page again.",
);

/// Admits the user who has the link, and afterwards the session with the cookie. There is no `Debug`, which would print both.
pub(super) struct Gate {
    port: u16,
    /// Token of the link; `None` once it is used.
    token: Cell<Option<Secret>>,
    session: Secret,
    /// Random part of every path.
    place: Secret,
    /// Value by which open pages recognize this server. After it ends, another program may use its port and receive the cookie and
    /// the path from open pages.
    seal: Secret,
}

impl Gate {
    pub(super) fn new(port: u16, token: Secret, session: Secret, place: Secret, seal: Secret) -> Self {
        Self {
            port,
            token: Cell::new(Some(token)),
            session,
            place,
            seal,
        }
    }

    /// Returns the link to open. Its token is empty after use.
    pub(super) fn link(&self) -> String {
        let token = self.token.get().map(hex).unwrap_or_default();
        format!("http://127.0.0.1:{}{LOGIN}?token={token}", self.port)
    }

    /// Returns the path prefix of all pages.
    pub(super) fn base(&self) -> String {
        format!("/{}/", &hex(self.place)[..32])
    }

    /// Returns the session cookie for the first request with the link's token.
    ///
    /// # Errors
    /// The token is wrong or was used.
    pub(super) fn log_in(&self, asked: &Asked<'_>, token: &str) -> Result<String, Refusal> {
        self.check_host(asked)?;
        // A prefetch by the browser must not use up the token.
        if asked.method != Method::GET || asked.purpose.is_some() {
            return Err(NO_METHOD);
        }
        match self.token.get() {
            Some(expected) if is_same(token, expected) => {
                self.token.set(None);
                let (session, base) = (hex(self.session), self.base());
                Ok(format!(
                    "{COOKIE}={session}; Path={base}; HttpOnly; SameSite=Strict"
                ))
            }
            _ => Err(NO_SESSION),
        }
    }

    /// Returns the requested page as a path below the base.
    ///
    /// # Errors
    /// The request is not allowed.
    pub(super) fn admit<'a>(&self, asked: &Asked<'a>) -> Result<&'a str, Refusal> {
        self.check_host(asked)?;
        let is_ours = |site: &str| site == "same-origin";
        // A typed address or a bookmark, which comes from no site.
        let is_nobodys = |site: &str| site == "none" && asked.method == Method::GET;
        if !asked
            .fetch_site
            .is_none_or(|site| is_ours(site) || is_nobodys(site))
        {
            return Err(OTHER_SITE);
        }
        let page = asked.path.strip_prefix(self.base().as_str()).ok_or(NO_SESSION)?;
        let cookies = asked.cookie.unwrap_or_default().split(';');
        let mut values = cookies.filter_map(|cookie| cookie.trim().strip_prefix(COOKIE)?.strip_prefix('='));
        if !values.any(|value| is_same(value, self.session)) {
            return Err(NO_SESSION);
        }
        match asked.method {
            Method::GET => Ok(page),
            Method::POST => self.check_write(asked).map(|()| page),
            _ => Err(NO_METHOD),
        }
    }

    fn check_host(&self, asked: &Asked<'_>) -> Result<(), Refusal> {
        // Browsers leave the default port out.
        let host = asked.host.unwrap_or_default();
        let (name, port) = host.split_once(':').unwrap_or((host, "80"));
        match ["127.0.0.1", "localhost"].contains(&name) && port == self.port.to_string() {
            true => Ok(()),
            false => Err(OTHER_HOST),
        }
    }

    /// Checks that a write comes from our own page. Browsers without `Sec-Fetch-Site` send `Origin`. Others send `null` there,
    /// because pages disable the referrer.
    fn check_write(&self, asked: &Asked<'_>) -> Result<(), Refusal> {
        let is_own = asked
            .host
            .is_some_and(|host| asked.origin == Some(&format!("http://{host}")));
        let is_told_by_site = asked.fetch_site.is_some() && matches!(asked.origin, None | Some("null"));
        match is_own || is_told_by_site {
            true => Ok(()),
            false => Err(OTHER_SITE),
        }
    }

    /// Returns the seal.
    pub(super) fn seal(&self) -> String {
        hex(self.seal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate() -> Gate {
        Gate::new(4000, [1; 32], [2; 32], [3; 32], [4; 32])
    }

    fn token() -> String {
        hex([1; 32])
    }

    fn asked<'a>(method: Method, path: &'a str) -> Asked<'a> {
        Asked {
            method,
            path,
            host: Some("127.0.0.1:4000"),
            ..Asked::default()
        }
    }

    /// Returns the result of a request with a valid session.
    fn admitted(change: impl Fn(&mut Asked<'_>)) -> Result<String, u16> {
        let gate = gate();
        let login = asked(Method::GET, LOGIN);
        let cookie = gate.log_in(&login, &token()).unwrap();
        let cookie = cookie.split(';').next().unwrap().to_owned();
        let path = format!("{}operators", gate.base());
        let mut request = Asked {
            cookie: Some(&cookie),
            ..asked(Method::GET, &path)
        };
        change(&mut request);
        let answer = gate.admit(&request);
        answer
            .map(str::to_owned)
            .map_err(|refusal| refusal.status.as_u16())
    }

    fn write(request: &mut Asked<'_>) {
        request.method = Method::POST;
        request.origin = Some("http://127.0.0.1:4000");
        request.fetch_site = Some("same-origin");
    }

    #[test]
    fn the_link_lets_in_once() {
        let gate = gate();
        let request = asked(Method::GET, LOGIN);
        assert_eq!(
            gate.link(),
            format!("http://127.0.0.1:4000/login?token={}", token())
        );
        for wrong in ["", "0", &token()[1..], &token().to_uppercase(), &hex([2; 32])] {
            if wrong != token() {
                assert_eq!(gate.log_in(&request, wrong), Err(NO_SESSION), "{wrong}");
            }
        }
        let ahead = Asked {
            purpose: Some("prefetch;prerender"),
            ..request.clone()
        };
        assert_eq!(
            gate.log_in(&ahead, &token()),
            Err(NO_METHOD),
            "nobody has opened it yet"
        );
        let rebound = Asked {
            host: Some("evil.example:4000"),
            ..request.clone()
        };
        assert_eq!(gate.log_in(&rebound, &token()), Err(OTHER_HOST));
        let cookie = gate.log_in(&request, &token()).unwrap();
        let expected = format!(
            "kubectl-operator-ui={}; Path=/{}/; HttpOnly; SameSite=Strict",
            hex([2; 32]),
            "03".repeat(16)
        );
        assert_eq!(cookie, expected);
        assert_eq!(gate.log_in(&request, &token()), Err(NO_SESSION), "it was used");
        assert!(gate.link().ends_with("?token="));
        // An empty token is invalid, too.
        assert_eq!(gate.log_in(&request, ""), Err(NO_SESSION));
    }

    #[test]
    fn only_the_loopback_names_with_the_port_are_answered() {
        for host in ["127.0.0.1:4000", "localhost:4000"] {
            assert_eq!(
                admitted(|asked| asked.host = Some(host)),
                Ok("operators".to_owned()),
                "{host}"
            );
        }
        for host in [
            "evil.example:4000",
            "127.0.0.1",
            "127.0.0.1:4001",
            "localhost.evil.example:4000",
            "0.0.0.0:4000",
            "",
        ] {
            assert_eq!(admitted(|asked| asked.host = Some(host)), Err(421), "{host}");
        }
        assert_eq!(admitted(|asked| asked.host = None), Err(421));
    }

    #[test]
    fn the_default_port_need_not_be_named() {
        for (port, host, is_answered) in [
            (80, "127.0.0.1", true),
            (80, "localhost", true),
            (80, "localhost:80", true),
            (80, "evil.example", false),
            (80, "localhost:", false),
            (8080, "localhost", false),
        ] {
            let gate = Gate::new(port, [1; 32], [2; 32], [3; 32], [4; 32]);
            let request = Asked {
                host: Some(host),
                ..asked(Method::GET, LOGIN)
            };
            let answer = gate.log_in(&request, &token());
            assert_eq!(answer.is_ok(), is_answered, "{port} {host}");
        }
    }

    /// Detects whether a type has `Debug`: inherent constants take precedence over those of a trait.
    struct Probe<T>(std::marker::PhantomData<T>);
    trait Silent {
        const IS_PRINTED: bool = false;
    }
    impl<T> Silent for Probe<T> {}
    impl<T: std::fmt::Debug> Probe<T> {
        const IS_PRINTED: bool = true;
    }

    #[test]
    fn what_has_the_secrets_cannot_be_printed() {
        let printed = [
            Probe::<Refusal>::IS_PRINTED,
            Probe::<Gate>::IS_PRINTED,
            Probe::<super::super::routes::Answer>::IS_PRINTED,
        ];
        assert_eq!(printed, [true, false, false]);
    }

    #[test]
    fn without_the_cookie_or_the_path_nothing_is_shown() {
        assert_eq!(admitted(|_| {}), Ok("operators".to_owned()));
        let with = |cookie: &'static str| admitted(move |asked| asked.cookie = Some(cookie));
        assert_eq!(admitted(|asked| asked.cookie = None), Err(403));
        assert_eq!(with("kubectl-operator-ui="), Err(403));
        assert_eq!(with("kubectl-operator-ui=0202"), Err(403));
        let session = hex([2; 32]);
        let others: &'static str =
            format!("a=b; kubectl-operator-ui=0202; kubectl-operator-ui={session}; c=d").leak();
        assert_eq!(
            with(others),
            Ok("operators".to_owned()),
            "others of the host have cookies, too"
        );
        assert_eq!(admitted(|asked| asked.path = "/operators"), Err(403));
        assert_eq!(admitted(|asked| asked.path = "/"), Err(403));
    }

    #[test]
    fn pages_of_other_origins_read_nothing() {
        for site in ["cross-site", "same-site", "", "Same-Origin"] {
            assert_eq!(
                admitted(|asked| asked.fetch_site = Some(site)),
                Err(403),
                "{site}"
            );
        }
        for site in ["same-origin", "none"] {
            assert!(admitted(|asked| asked.fetch_site = Some(site)).is_ok(), "{site}");
        }
    }

    #[test]
    fn only_a_form_of_our_own_pages_writes() {
        assert_eq!(admitted(write), Ok("operators".to_owned()));
        let changed = |change: fn(&mut Asked<'_>)| {
            admitted(|asked| {
                write(asked);
                change(asked);
            })
        };
        // Browsers send this for pages that disable the referrer.
        assert!(changed(|asked| asked.origin = Some("null")).is_ok());
        assert!(changed(|asked| asked.origin = None).is_ok());
        assert!(changed(|asked| asked.fetch_site = None).is_ok());
        for origin in [
            "http://127.0.0.1:4001",
            "https://127.0.0.1:4000",
            "http://evil.example",
            "",
        ] {
            let with = |asked: &mut Asked<'_>| {
                write(asked);
                asked.origin = Some(origin);
            };
            assert_eq!(admitted(with), Err(403), "{origin}");
        }
        for site in ["cross-site", "same-site", "none"] {
            let with = |asked: &mut Asked<'_>| {
                write(asked);
                asked.fetch_site = Some(site);
            };
            assert_eq!(admitted(with), Err(403), "{site}");
        }
        // A request without any origin does not come from our pages.
        for origin in [None, Some("null")] {
            let with = |asked: &mut Asked<'_>| {
                write(asked);
                asked.fetch_site = None;
                asked.origin = origin;
            };
            assert_eq!(admitted(with), Err(403));
        }
        assert_eq!(changed(|asked| asked.method = Method::DELETE), Err(405));
        assert_eq!(changed(|asked| asked.cookie = None), Err(403));
    }

    #[test]
    fn secrets_are_not_the_same_twice() {
        assert_ne!(random().unwrap(), random().unwrap());
    }
}
