//! Flags of the TLS profile, with upstream's names and values.

use rustls::crypto::ring::ALL_CIPHER_SUITES;
use rustls::{CipherSuite, NamedGroup, SupportedCipherSuite};

use crate::tls::TlsProfile;

/// Returns the cipher suites that are served, by the names of upstream's programs, which are those of Go.
fn ciphers() -> Vec<(String, CipherSuite)> {
    let suites = ALL_CIPHER_SUITES.iter().map(SupportedCipherSuite::suite);
    let named = suites.map(|suite| {
        let name = suite.as_str().unwrap_or_default();
        (name.replace("TLS13_", "TLS_"), suite)
    });
    named.collect()
}

/// Cipher suites that upstream's programs have besides. None is recommended any more.
const OTHER_CIPHERS: [&str; 16] = [
    "TLS_ECDHE_ECDSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
];

/// Curves by the names of upstream's programs.
const CURVES: [(&str, NamedGroup); 4] = [
    ("X25519", NamedGroup::X25519),
    ("prime256v1", NamedGroup::secp256r1),
    ("secp256r1", NamedGroup::secp256r1),
    ("secp384r1", NamedGroup::secp384r1),
];

/// Curves that upstream's programs have besides; `ring` does not implement them.
const OTHER_CURVES: [&str; 4] = [
    "SecP256r1MLKEM768",
    "SecP384r1MLKEM1024",
    "X25519MLKEM768",
    "secp521r1",
];

/// Versions, cipher suites and curves to serve with. Both programs of OLM v1 have these flags.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct ProfileFlags {
    /// Profile of TLS: `modern` (TLS 1.3), `intermediate` or `old` (also TLS 1.2), or `custom` for the flags below.
    #[arg(long, default_value = "intermediate", value_name = "PROFILE", value_parser = parse_profile)]
    tls_profile: Profile,
    /// Minimum version with the profile `custom`: `TLSv1.0` to `TLSv1.3`. TLS 1.2 is the oldest that is served.
    #[arg(long, default_value = "TLSv1.2", value_name = "VERSION", value_parser = parse_version)]
    tls_custom_version: MinVersion,
    /// Cipher suites with the profile `custom`, separated by commas; all when empty.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAMES", value_parser = parse_ciphers)]
    tls_custom_ciphers: Names<CipherSuite>,
    /// Curves with the profile `custom`, separated by commas; all when empty.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAMES", value_parser = parse_curves)]
    tls_custom_curves: Names<NamedGroup>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Profile {
    Modern,
    /// `intermediate` and `old`: what the latter has besides is not supported.
    Compatible,
    Custom,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MinVersion {
    Tls12,
    Tls13,
}

/// Values of a flag, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Names<T> {
    supported: Vec<T>,
    /// Names that only upstream's programs support.
    others: Vec<&'static str>,
}

impl ProfileFlags {
    /// Returns the profile to serve with.
    pub(super) fn profile(&self) -> TlsProfile {
        match self.tls_profile {
            Profile::Compatible => TlsProfile::default(),
            Profile::Modern => TlsProfile {
                only_tls13: true,
                ..TlsProfile::default()
            },
            Profile::Custom => TlsProfile {
                only_tls13: self.tls_custom_version == MinVersion::Tls13,
                ciphers: (!self.tls_custom_ciphers.is_empty())
                    .then(|| self.tls_custom_ciphers.supported.clone()),
                curves: self.tls_custom_curves.supported.clone(),
            },
        }
    }

    /// Returns the named cipher suites and curves that are not supported here.
    pub(super) fn without_effect(&self) -> Vec<&'static str> {
        [
            &self.tls_custom_ciphers.others[..],
            &self.tls_custom_curves.others[..],
        ]
        .concat()
    }
}

impl<T: Copy> Names<T> {
    /// Reads a list; `what` is one of them for the error.
    fn parse(
        what: &str,
        text: &str,
        supported: &[(impl AsRef<str>, T)],
        others: &[&'static str],
    ) -> Result<Self, String> {
        let mut names = Self {
            supported: Vec::new(),
            others: Vec::new(),
        };
        let listed = (!text.is_empty()).then(|| text.split(','));
        for name in listed.into_iter().flatten() {
            if let Some((_, value)) = supported.iter().find(|(known, _)| known.as_ref() == name) {
                names.supported.push(*value);
            } else if let Some(other) = others.iter().find(|known| **known == name) {
                names.others.push(*other);
            } else {
                return Err(format!("unknown {what} {name:?}"));
            }
        }
        Ok(names)
    }

    fn is_empty(&self) -> bool {
        self.supported.is_empty() && self.others.is_empty()
    }
}

fn parse_profile(text: &str) -> Result<Profile, String> {
    match text.to_lowercase().as_str() {
        "modern" => Ok(Profile::Modern),
        "intermediate" | "old" => Ok(Profile::Compatible),
        "custom" => Ok(Profile::Custom),
        _ => Err(format!("unknown TLS profile: {text:?}")),
    }
}

fn parse_version(text: &str) -> Result<MinVersion, String> {
    match text {
        "TLSv1.0" | "TLSv1.1" | "TLSv1.2" => Ok(MinVersion::Tls12),
        "TLSv1.3" => Ok(MinVersion::Tls13),
        _ => Err(format!("unknown TLS version: {text:?}")),
    }
}

fn parse_ciphers(text: &str) -> Result<Names<CipherSuite>, String> {
    Names::parse("cipher", text, &ciphers(), &OTHER_CIPHERS)
}

fn parse_curves(text: &str) -> Result<Names<NamedGroup>, String> {
    let curves = Names::parse("curve", text, &CURVES, &OTHER_CURVES)?;
    if curves.supported.is_empty() && !curves.others.is_empty() {
        let all = CURVES.map(|(name, _)| name).join(", ");
        return Err(format!("no supported curve in {text:?}; supported are {all}"));
    }
    Ok(curves)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    #[command(args_override_self = true)]
    struct Program {
        #[command(flatten)]
        tls: ProfileFlags,
    }

    fn parse(flags: &[&str]) -> Result<ProfileFlags, String> {
        let words = ["program"].iter().chain(flags);
        let parsed = Program::try_parse_from(words);
        parsed
            .map(|program| program.tls)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn profiles_are_those_of_upstream() {
        let all = TlsProfile::default();
        let tls13 = TlsProfile {
            only_tls13: true,
            ..TlsProfile::default()
        };
        for (flags, wanted) in [
            (&[] as &[&str], &all),
            (&["--tls-profile=intermediate"], &all),
            (&["--tls-profile=Old"], &all),
            (&["--tls-profile=modern"], &tls13),
            (&["--tls-profile=custom"], &all),
            (&["--tls-profile=custom", "--tls-custom-version=TLSv1.0"], &all),
            (&["--tls-profile=custom", "--tls-custom-version=TLSv1.3"], &tls13),
            // Without the profile these flags have no effect.
            (
                &["--tls-custom-version=TLSv1.3", "--tls-custom-curves=X25519"],
                &all,
            ),
        ] {
            assert_eq!(parse(flags).unwrap().profile(), *wanted, "{flags:?}");
        }
    }

    #[test]
    fn a_custom_profile_has_what_is_named() {
        let flags = parse(&[
            "--tls-profile=custom",
            "--tls-custom-ciphers=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_RSA_WITH_AES_128_CBC_SHA",
            "--tls-custom-curves=SecP256r1MLKEM768,secp256r1",
        ])
        .unwrap();
        let profile = flags.profile();
        assert!(parse(&["--tls-custom-ciphers=TLS_AES_128_GCM_SHA256"]).is_ok());
        let cipher = CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256;
        assert_eq!(profile.ciphers, Some(vec![cipher]));
        assert_eq!(profile.curves, [NamedGroup::secp256r1]);
        assert_eq!(
            flags.without_effect(),
            ["TLS_RSA_WITH_AES_128_CBC_SHA", "SecP256r1MLKEM768"]
        );
        // Upstream serves TLS 1.3 then.
        let old = parse(&[
            "--tls-profile=custom",
            "--tls-custom-ciphers=TLS_RSA_WITH_AES_128_CBC_SHA",
        ]);
        assert_eq!(old.unwrap().profile().ciphers, Some(Vec::new()));
    }

    #[test]
    fn unknown_names_are_refused() {
        for (flag, error) in [
            ("--tls-profile=strict", "unknown TLS profile: \"strict\""),
            ("--tls-custom-version=1.3", "unknown TLS version: \"1.3\""),
            ("--tls-custom-ciphers=AES128-SHA", "unknown cipher \"AES128-SHA\""),
            ("--tls-custom-curves=X25519,", "unknown curve \"\""),
            (
                "--tls-custom-curves=secp521r1",
                "no supported curve in \"secp521r1\"",
            ),
        ] {
            let refused = parse(&[flag]).unwrap_err();
            assert!(refused.contains(error), "{flag}: {refused}");
        }
    }
}
