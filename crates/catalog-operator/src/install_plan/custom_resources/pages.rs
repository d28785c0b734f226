//! Custom resources of one version, read page by page.

use std::sync::Arc;
use std::time::Duration;

use futures::AsyncReadExt;
use kube::Client;
use kube::api::ListParams;
use kube::core::Request;
use olm_runtime::client::REQUEST_DEADLINE;
use olm_runtime::isolation;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Misfit;
use crate::install_plan::structural_schema::StructuralSchema;
use crate::object;

/// Objects in a page.
const PAGE: u32 = 500;
/// Maximum bytes of a page; a larger page is requested again with fewer objects.
const PAGE_BOUND: usize = 4 << 20;
/// Objects named beside the first one that does not fit.
const MAX_OTHERS: usize = 4;

/// Why resources could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("{0}")]
    Refused(kube::Error),
    #[error("the response ended early: {0}")]
    Broken(std::io::Error),
    #[error("no answer within {} s", .0.as_secs())]
    Deadline(Duration),
    #[error("the answer is not a list")]
    NoList(serde_json::Error),
    #[error("an object exceeds {PAGE_BOUND} bytes")]
    TooLarge,
}

impl ReadError {
    /// A message for readers of the plan that is the same for each attempt. The response of a conversion webhook is left out,
    /// because it may contain values of the objects, which not all readers may see.
    pub(super) fn message(&self) -> String {
        match self {
            Self::Refused(kube::Error::Api(status)) => {
                format!("the API server answers {} {}", status.code, status.reason)
            }
            Self::Refused(_) | Self::Broken(_) => "the API server cannot be reached".to_owned(),
            other => other.to_string(),
        }
    }
}

/// The custom resources of one version, and the schema they are held against.
pub(super) struct Resources<'a> {
    pub client: &'a Client,
    pub group: &'a str,
    pub version: &'a str,
    pub plural: &'a str,
    pub schema: Arc<StructuralSchema>,
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(borrow, default)]
    items: Vec<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    #[serde(rename = "continue", default)]
    next: String,
}

impl Resources<'_> {
    /// The first that does not fit, of all namespaces.
    pub(super) async fn check_all(&self) -> Result<Option<Misfit>, ReadError> {
        let mut limit = PAGE;
        let mut next = String::new();
        loop {
            let params = ListParams {
                continue_token: (!next.is_empty()).then(|| next.clone()),
                ..ListParams::default().limit(limit)
            };
            let text = match self.read(&params).await {
                Ok(text) => text,
                Err(ReadError::TooLarge) if limit > 1 => {
                    limit = (limit / 2).max(1);
                    continue;
                }
                Err(error) => return Err(error),
            };
            // Objects and schemas may be large, and others wait for this thread.
            let (schema, version) = (Arc::clone(&self.schema), self.version.to_owned());
            let check = move || check_page(&text, &schema, &version);
            let (misfit, more) = isolation::blocking_in_round(check).await?;
            if misfit.is_some() || more.is_empty() {
                return Ok(misfit);
            }
            next = more;
        }
    }

    /// One answer, as text.
    async fn read(&self, params: &ListParams) -> Result<Vec<u8>, ReadError> {
        let path = format!("/apis/{}/{}/{}", self.group, self.version, self.plural);
        let request = Request::new(path).list(params);
        let request = request.map_err(|error| ReadError::Refused(kube::Error::BuildRequest(error)))?;
        let read = async {
            let body = self
                .client
                .request_stream(request)
                .await
                .map_err(ReadError::Refused)?;
            let mut text = Vec::new();
            let bound = u64::try_from(PAGE_BOUND).unwrap_or(u64::MAX);
            let mut body = std::pin::pin!(body.take(bound + 1));
            body.read_to_end(&mut text).await.map_err(ReadError::Broken)?;
            match text.len() > PAGE_BOUND {
                true => Err(ReadError::TooLarge),
                false => Ok(text),
            }
        };
        let answer = tokio::time::timeout(REQUEST_DEADLINE, read).await;
        answer.map_err(|_| ReadError::Deadline(REQUEST_DEADLINE))?
    }
}

/// The first object that does not fit, with the next ones, and the token of the next page.
fn check_page(
    text: &[u8],
    schema: &StructuralSchema,
    version: &str,
) -> Result<(Option<Misfit>, String), ReadError> {
    let page: Page<'_> = serde_json::from_slice(text).map_err(ReadError::NoList)?;
    let mut found = Vec::new();
    for item in &page.items {
        let object: Value = serde_json::from_str(item.get()).map_err(ReadError::NoList)?;
        let text = |field| {
            object::metadata_text(&object, field)
                .unwrap_or_default()
                .to_owned()
        };
        let (namespace, name) = (text("namespace"), text("name"));
        let misfits = schema.misfits(object);
        if misfits.is_empty() {
            continue;
        }
        found.push(Misfit {
            version: version.to_owned(),
            namespace,
            name,
            fields: misfits.join(", "),
            others: Vec::new(),
        });
        if found.len() > MAX_OTHERS {
            break;
        }
    }
    let others = found.split_off(found.len().min(1));
    let first = found.pop().map(|first| Misfit { others, ..first });
    Ok((first, page.metadata.next))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_objects_that_do_not_fit_are_named() {
        let schema = StructuralSchema::new(json!({"type": "object", "required": ["spec"]}));
        let item = |name: &str, fits: bool| {
            let mut item = json!({"metadata": {"name": name, "namespace": "shop"}});
            if fits {
                item["spec"] = json!({});
            }
            item
        };
        let many = (0..9).map(|number| item(&number.to_string(), false)).collect();
        for (items, first, others) in [
            (vec![item("a", true)], None, 0),
            (vec![item("a", true), item("b", false)], Some("b"), 0),
            (
                vec![item("a", false), item("b", true), item("c", false)],
                Some("a"),
                1,
            ),
            (many, Some("0"), MAX_OTHERS),
        ] {
            let text = json!({"items": items}).to_string();
            let (misfit, _) = check_page(text.as_bytes(), &schema, "v1").unwrap();
            let found = misfit.as_ref();
            assert_eq!(found.map(|misfit| misfit.name.as_str()), first, "{text}");
            assert_eq!(found.map_or(0, |misfit| misfit.others.len()), others, "{text}");
        }
    }
}
