//! Names that sound like a secret: of fields, flags, variables and in texts. There is this one list. Pure.

/// Parts of such names, without what stands between their words.
const PARTS: [&str; 22] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pwd",
    "secret",
    "token",
    "credential",
    "apikey",
    "accesskey",
    "privatekey",
    "signingkey",
    "encryptionkey",
    "masterkey",
    "sharedkey",
    "sshkey",
    "accountkey",
    "authorization",
    "signature",
    "cookie",
    "bearer",
    "jwt",
];
/// Words of them.
const WORDS: [&str; 4] = ["cred", "creds", "pw", "auths"];
/// Ends of words of them: `dbPass`, `PGPASS`, `basicAuth`.
const ENDS: [&str; 2] = ["pass", "auth"];
/// Names that sound so and hold nothing that is secret.
const HARMLESS: [&str; 3] = ["publickey", "topologykey", "automountserviceaccounttoken"];
/// Names of fields that hold names of objects.
const REFERENCES: [&str; 3] = ["secretname", "secrets", "imagepullsecrets"];
/// Names of fields that say which object is meant and what of it.
const OF_REFERENCES: [&str; 14] = [
    "apigroup",
    "apiversion",
    "audience",
    "defaultmode",
    "expirationseconds",
    "group",
    "items",
    "key",
    "kind",
    "name",
    "namespace",
    "optional",
    "path",
    "secretname",
];

/// Its words in small letters: `dbPass`, `db_pass` and `DB-PASS` have two.
fn words(name: &str) -> Vec<String> {
    let (mut words, mut word, mut was_small) = (Vec::new(), String::new(), false);
    for letter in name.chars() {
        let is_start = was_small && letter.is_uppercase();
        if (is_start || !letter.is_alphanumeric()) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if letter.is_alphanumeric() {
            word.extend(letter.to_lowercase());
        }
        was_small = letter.is_lowercase() || letter.is_ascii_digit();
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// Whether what has this name is likely to be a secret.
pub(super) fn is_secretive(name: &str) -> bool {
    let words = words(name);
    let joined = words.concat();
    if HARMLESS.contains(&joined.as_str()) {
        return false;
    }
    let is_key = || {
        let mut last = words.iter().rev().filter(|word| *word != "data");
        last.next().is_some_and(|word| word == "key") && last.next().is_some()
    };
    PARTS.iter().any(|part| joined.contains(*part))
        || words
            .iter()
            .any(|word| WORDS.contains(&word.as_str()) || ENDS.iter().any(|end| word.ends_with(*end)))
        || is_key()
}

/// Whether what has this name says all up to the end of its line, blanks included: headers of HTTP do.
pub(super) fn is_header(name: &str) -> bool {
    let joined = words(name).concat();
    joined.contains("authorization") || joined.contains("cookie")
}

/// Whether it holds names of objects, if it holds texts.
pub(super) fn is_reference(name: &str) -> bool {
    REFERENCES.contains(&words(name).concat().as_str())
}

/// Whether fields of this name with these in it say which object is meant. Only of a reference a key is the name of one.
pub(super) fn is_reference_with<'a>(name: &str, mut fields: impl Iterator<Item = &'a String>) -> bool {
    let joined = words(name).concat();
    let is_ref = joined.ends_with("ref");
    (is_ref || is_reference(name) || ["secret", "serviceaccounttoken"].contains(&joined.as_str()))
        && fields.all(|field| {
            let field = field.to_lowercase();
            OF_REFERENCES.contains(&field.as_str()) && (is_ref || field != "key")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sound_like_a_secret_however_they_are_written() {
        for name in [
            "password",
            "dbPassword",
            "DB_PASSWORD",
            "--db-pass",
            "PGPASS",
            "dbPass",
            "pass",
            "auth",
            "basicAuth",
            "auths",
            "OAuth",
            "Authorization",
            "X-Api-Key",
            "client-key-data",
            "signingKey",
            "tls.key",
            "encryption_key",
            "Set-Cookie",
            "X-Amz-Signature",
            "AccountKey",
            "access-token",
            "jwt",
            "db.creds",
            "DBPass",
            "tlsKey",
            "dbCreds",
        ] {
            assert!(is_secretive(name), "{name}");
        }
        for name in [
            "key",
            "name",
            "author",
            "authority",
            "keys",
            "topologyKey",
            "publicKey",
            "passed",
            "bypassed",
            "compassion",
            "monkey",
            "matchLabelKeys",
            "configMapKeyRef",
            "automountServiceAccountToken",
            "data",
        ] {
            assert!(!is_secretive(name), "{name}");
        }
    }
}
