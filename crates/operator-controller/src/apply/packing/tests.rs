use serde_json::json;

use super::*;

fn phase(name: &str, objects: Vec<Value>) -> Phase {
    Phase {
        name: name.to_owned(),
        objects,
    }
}

fn config_map(name: &str, text: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": text}})
}

/// Returns the objects that the phases refer to.
fn unpacked(packed: &Packed) -> Vec<Vec<Value>> {
    let object = |object: &ObjectSetObject| {
        let reference = object.reference.as_ref().unwrap();
        assert_eq!(reference.namespace.as_deref(), Some("olm"));
        let secret = packed.secrets.iter().find(|secret| secret.name == reference.name);
        unpack(
            &secret.unwrap().data[&reference.key],
            &reference.key,
            &reference.name,
        )
        .unwrap()
    };
    let phases = packed.phases.iter();
    phases
        .map(|phase| phase.objects.iter().map(object).collect())
        .collect()
}

/// Text that hardly can be compressed.
fn noise(bytes: usize) -> String {
    let mut text = String::new();
    let mut digest = Sha256::digest(b"noise");
    while text.len() < bytes {
        text += &hex::encode(digest);
        digest = Sha256::digest(digest);
    }
    text.truncate(bytes);
    text
}

#[test]
fn objects_come_back_as_they_were() {
    let large = noise(1_000_000);
    let phases = [
        phase(
            "a",
            vec![config_map("a", "<1>"), config_map("b", &noise(600_000))],
        ),
        phase(
            "b",
            vec![
                config_map("c", &noise(600_000)),
                config_map("d", &large),
                config_map("a", "<1>"),
            ],
        ),
    ];
    let packed = pack("e-1", "olm", &phases).unwrap();
    let expected: Vec<Vec<Value>> = phases.iter().map(|phase| phase.objects.clone()).collect();
    assert_eq!(unpacked(&packed), expected);
    assert!(packed.secrets.len() > 2, "no Secret is too large");
    for secret in &packed.secrets {
        let size: usize = secret.data.values().map(Vec::len).sum();
        assert!(size <= MAX_BYTES, "{size}");
        assert!(
            secret.name.starts_with("e-1-") && secret.name.len() == 20,
            "{}",
            secret.name
        );
    }
    assert_eq!(
        pack("e-1", "olm", &phases).unwrap(),
        packed,
        "the same content has the same names"
    );
}

#[test]
fn equal_objects_share_a_key() {
    let phases = [phase("a", vec![config_map("a", "1"), config_map("a", "1")])];
    let packed = pack("e-1", "olm", &phases).unwrap();
    assert_eq!((packed.secrets.len(), packed.secrets[0].data.len()), (1, 1));
    let key = packed.secrets[0].data.keys().next().unwrap();
    assert_eq!(key.len(), 43);
}

#[test]
fn an_object_that_does_not_fit_is_refused() {
    let phases = [phase("a", vec![config_map("a", &noise(3_000_000))])];
    let error = pack("e-1", "olm", &phases).unwrap_err();
    assert!(
        error.starts_with("object in phase 0 index 0 exceeds maximum Secret data size (")
            && error.ends_with(" bytes > 921600 bytes) even after compression"),
        "{error}"
    );
}

#[test]
fn unreadable_data_is_reported_with_its_place() {
    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    bomb.write_all(&vec![b' '; 11 * 1024 * 1024]).unwrap();
    let error = unpack(&bomb.finish().unwrap(), "k", "ns/s").unwrap_err();
    assert_eq!(
        error,
        "decompressed data for key \"k\" in Secret ns/s exceeds maximum size (10485760 bytes)"
    );
    for (data, start) in [
        (&b"[]"[..], "unmarshaling object from key \"k\" in Secret ns/s: "),
        (&[0x1f, 0x8b, 0][..], "decompressing key \"k\" in Secret ns/s: "),
    ] {
        let error = unpack(data, "k", "ns/s").unwrap_err();
        assert!(error.starts_with(start), "{error}");
    }
}
