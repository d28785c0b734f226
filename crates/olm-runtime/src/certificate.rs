//! Serving certificates that OLM issues: their contents, the stored parts, and the time of renewal.
//!
//! Each pair has its own CA, whose key is dropped after signing. Only [`SecretData`] contains a private key,
//! and it cannot be printed.

mod volume;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use olm_api::labels;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use sha2::{Digest, Sha256};
use x509_parser::{certificate::X509Certificate, extensions::GeneralName, pem::Pem};

pub use self::volume::{CERTIFICATE_VOLUMES, CertificateVolume};
use crate::plan::SecretData;

/// Validity period of CA and certificate, as upstream's.
const LIFETIME: Duration = Duration::from_secs(730 * 24 * 60 * 60);
/// Time before expiry at which a certificate is replaced, as upstream does.
const ROTATION: Duration = Duration::from_secs(24 * 60 * 60);

/// Time by which the start of a certificate's validity is backdated, because the API server's clock may be
/// behind.
const BACKDATED: Duration = Duration::from_secs(60 * 60);

/// Data key of the certificate in a Secret of type `kubernetes.io/tls`.
pub const SECRET_KEY_CERTIFICATE: &str = "tls.crt";
/// Data key of the private key in a Secret of type `kubernetes.io/tls`.
pub const SECRET_KEY_PRIVATE_KEY: &str = "tls.key";

/// A new pair that is about to be written into its Secret.
#[derive(Debug, Clone)]
pub struct Issued {
    /// Certificate of the CA, as PEM.
    pub ca: String,
    /// Time of the renewal.
    pub rotate_at: Timestamp,
    /// All data of the Secret, including the private key.
    pub data: SecretData,
}

/// Issues pairs of keys and certificates.
#[derive(Debug, Default)]
pub struct CertificateMaker;

impl CertificateMaker {
    /// Issues a CA and a certificate for a server with these names, both valid from shortly before `now`.
    ///
    /// # Errors
    /// When a name is no DNS name, or the system has no source of randomness.
    pub fn issue(&self, hosts: &[String], now: Timestamp) -> Result<Issued, rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(Vec::new())?;
        valid_from(&mut params, now);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let name = format!("olm-selfsigned-{}", hex(&params.key_identifier(&key)));
        params.distinguished_name.push(DnType::CommonName, name);
        let ca = CertifiedIssuer::self_signed(params, key)?;

        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(hosts)?;
        valid_from(&mut params, now);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let name = hosts.first().map(String::as_str).unwrap_or_default();
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &ca)?;

        let ca = ca.pem();
        let data = SecretData::new([
            (SECRET_KEY_CERTIFICATE, certificate.pem()),
            (SECRET_KEY_PRIVATE_KEY, key.serialize_pem()),
            (labels::SECRET_KEY_CA, ca.clone()),
        ]);
        let end = now.checked_add(SignedDuration::try_from(LIFETIME - ROTATION).unwrap_or_default());
        Ok(Issued {
            ca,
            data,
            rotate_at: end.unwrap_or(now),
        })
    }
}

fn valid_from(params: &mut CertificateParams, now: Timestamp) {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let since = Duration::from_secs(u64::try_from(now.as_second()).unwrap_or_default());
    params.not_before = epoch + since.saturating_sub(BACKDATED);
    params.not_after = epoch + since + LIFETIME;
}

/// SHA-256 of a CA's PEM, which links Secrets and pods.
pub fn ca_hash(ca: &str) -> String {
    hex(&Sha256::digest(ca))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Creation time of a valid pair, and the time of its renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// Start of the validity of pairs that were issued here.
    pub from: Timestamp,
    /// Time of the renewal.
    pub rotate_at: Timestamp,
}

/// Reason why a stored pair is not valid, for users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfit {
    /// It has expired, or will within a day.
    Due(String),
    /// It was never valid, or its data was changed.
    Broken(String),
}

impl Unfit {
    /// Returns the reason, for users.
    pub fn reason(&self) -> &str {
        match self {
            Self::Due(text) | Self::Broken(text) => text,
        }
    }
}

/// Checks that CA and certificate, as PEM, are valid for all of `hosts` for the next day.
///
/// # Errors
/// The reason why they are not.
pub fn inspect(ca: &str, certificate: &str, hosts: &[String], now: Timestamp) -> Result<Validity, Unfit> {
    let broken = |what: &str| Unfit::Broken(what.to_owned());
    let ca = first_der(ca).ok_or_else(|| broken("its CA is missing or cannot be read"))?;
    let ca = parse(&ca).ok_or_else(|| broken("its CA is missing or cannot be read"))?;
    let leaf = first_der(certificate).ok_or_else(|| broken("it is missing or cannot be read"))?;
    let leaf = parse(&leaf).ok_or_else(|| broken("it is missing or cannot be read"))?;
    if !ca.is_ca() || leaf.verify_signature(Some(ca.public_key())).is_err() {
        return Err(broken("it is not signed by the CA in its Secret"));
    }
    let names = dns_names(&leaf);
    if let Some(host) = hosts.iter().find(|host| !names.contains(&host.as_str())) {
        return Err(Unfit::Broken(format!("it is not for {host}")));
    }
    let [from, end] = [
        ca.validity()
            .not_before
            .timestamp()
            .max(leaf.validity().not_before.timestamp()),
        ca.validity()
            .not_after
            .timestamp()
            .min(leaf.validity().not_after.timestamp()),
    ]
    .map(|seconds| Timestamp::from_second(seconds).unwrap_or_default());
    let rotate_at = end.checked_sub(ROTATION).unwrap_or_default();
    if now < from {
        return Err(Unfit::Broken(format!("it is not valid before {from}")));
    }
    // Certificates are issued with this lifetime.
    let from = end.checked_sub(LIFETIME).unwrap_or(from);
    if now >= rotate_at {
        return Err(Unfit::Due(format!("it expires at {end}")));
    }
    Ok(Validity { from, rotate_at })
}

/// True for a certificate that can be part of a list of trusted ones.
pub fn is_readable(pem: &str) -> bool {
    first_der(pem).is_some_and(|der| parse(&der).is_some())
}

fn first_der(pem: &str) -> Option<Vec<u8>> {
    let first = Pem::iter_from_buffer(pem.as_bytes()).next()?.ok()?;
    (first.label == "CERTIFICATE").then_some(first.contents)
}

fn parse(der: &[u8]) -> Option<X509Certificate<'_>> {
    x509_parser::parse_x509_certificate(der)
        .ok()
        .map(|(_, found)| found)
}

fn dns_names<'a>(certificate: &'a X509Certificate<'_>) -> Vec<&'a str> {
    let found = certificate.subject_alternative_name().ok().flatten();
    let names = found.iter().flat_map(|names| names.value.general_names.iter());
    names
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(*name),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use jiff::ToSpan;

    use super::*;
    use crate::plan::to_value;

    const NOW: &str = "2026-01-01T00:00:00Z";

    fn hosts() -> Vec<String> {
        ["s.ns", "s.ns.svc", "s.ns.svc.cluster.local"]
            .map(str::to_owned)
            .to_vec()
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    /// Returns CA, certificate and key of a new pair, as PEM.
    fn pair(now: &str) -> [String; 3] {
        let issued = CertificateMaker.issue(&hosts(), at(now)).unwrap();
        let secret = issued.data.within(&to_value(&()));
        [
            labels::SECRET_KEY_CA,
            SECRET_KEY_CERTIFICATE,
            SECRET_KEY_PRIVATE_KEY,
        ]
        .map(|key| {
            let bytes: k8s_openapi::ByteString = serde_json::from_value(secret["data"][key].clone()).unwrap();
            String::from_utf8(bytes.0).unwrap()
        })
    }

    #[test]
    fn a_pair_serves_its_hosts_for_two_years_less_a_day() {
        let [ca, certificate, key] = pair(NOW);
        assert!(key.contains("PRIVATE KEY"));
        let expected = Validity {
            from: at(NOW),
            rotate_at: at("2027-12-31T00:00:00Z"),
        };
        assert_eq!(inspect(&ca, &certificate, &hosts(), at(NOW)), Ok(expected));
        let last = expected.rotate_at - 1.second();
        assert_eq!(inspect(&ca, &certificate, &hosts(), last), Ok(expected));
        let due = inspect(&ca, &certificate, &hosts(), expected.rotate_at);
        assert_eq!(due, Err(Unfit::Due("it expires at 2028-01-01T00:00:00Z".into())));
        let slow_clock = inspect(&ca, &certificate, &hosts(), at(NOW) - 1.hour());
        assert!(
            slow_clock.is_ok(),
            "a clock that is behind accepts it: {slow_clock:?}"
        );
        let early = inspect(&ca, &certificate, &hosts(), at(NOW) - 1.hour() - 1.second());
        assert!(matches!(early, Err(Unfit::Broken(text)) if text.contains("not valid before")));
    }

    #[test]
    fn unusable_certificates_report_the_reason() {
        let [ca, certificate, key] = pair(NOW);
        let [other_ca, other, _] = pair(NOW);
        let foreign = vec!["t.ns".to_owned()];
        let (own, none) = (hosts(), String::new());
        let cases: [(&str, &str, &[String], &str); 8] = [
            (&none, &certificate, &own, "its CA is missing or cannot be read"),
            (
                "nonsense",
                &certificate,
                &own,
                "its CA is missing or cannot be read",
            ),
            (&key, &certificate, &own, "its CA is missing or cannot be read"),
            (&ca, &none, &own, "it is missing or cannot be read"),
            (&ca, &key, &own, "it is missing or cannot be read"),
            (
                &other_ca,
                &certificate,
                &own,
                "it is not signed by the CA in its Secret",
            ),
            (
                &certificate,
                &other,
                &own,
                "it is not signed by the CA in its Secret",
            ),
            (&ca, &certificate, &foreign, "it is not for t.ns"),
        ];
        for (ca, certificate, hosts, expected) in cases {
            assert_eq!(
                inspect(ca, certificate, hosts, at(NOW)),
                Err(Unfit::Broken(expected.into()))
            );
        }
        assert!(is_readable(&ca) && !is_readable(&key) && !is_readable("") && !is_readable("nonsense"));
    }

    #[test]
    fn no_text_shows_the_private_key() {
        let issued = CertificateMaker.issue(&hosts(), at(NOW)).unwrap();
        let text = format!("{issued:?} {issued:#?}");
        assert!(
            text.contains("tls.key") && !text.contains("PRIVATE KEY"),
            "{text}"
        );
    }

    #[test]
    fn two_pairs_have_nothing_in_common() {
        let ([ca, certificate, key], [other_ca, other, other_key]) = (pair(NOW), pair(NOW));
        assert!(ca != other_ca && certificate != other && key != other_key);
        assert_ne!(ca_hash(&ca), ca_hash(&other_ca));
    }

    #[test]
    fn the_hash_is_that_of_clusters_today() {
        assert_eq!(
            ca_hash("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
    }
}
