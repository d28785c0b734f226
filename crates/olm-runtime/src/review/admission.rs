//! Admission of callers: from their credentials to the decision.

use std::fmt;

use super::{Attributes, ReviewError, Reviews, User};

/// Credentials of a caller.
#[derive(Debug, Clone)]
pub enum Caller<'a> {
    /// Identity from a trusted source: the API server or a verified certificate.
    Known(User),
    /// Bearer token.
    Token(&'a str),
}

/// Reason why a caller is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// No credentials, or an invalid token.
    Unauthenticated,
    /// The user is not allowed.
    Forbidden {
        /// Name of the user.
        user: String,
        /// Reason given by the API server.
        reason: String,
    },
    /// The API server does not answer. Its error is only for the log.
    Unanswered(Question),
}

/// Question to the API server about a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// Owner of the token.
    Identity,
    /// Permission of the user.
    Permission,
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Identity => "the identity of the client",
            Self::Permission => "whether the request is allowed",
        })
    }
}

impl Reviews {
    /// Admits `caller` or returns the refusal. `needs` returns the permission that a user must have; with `None` a known identity is
    /// enough. `unanswered` starts the log line if the API server does not answer.
    ///
    /// # Errors
    /// If the caller is refused.
    pub async fn admit<'a>(
        &self,
        caller: Option<Caller<'_>>,
        needs: impl FnOnce(&User) -> Option<&'a Attributes> + Send,
        unanswered: &str,
    ) -> Result<(), Refusal> {
        let silent = |question: Question, error: &ReviewError| {
            self.tell_unanswered(&format!("{unanswered}: cannot determine {question}"), error);
            Refusal::Unanswered(question)
        };
        let (user, token) = match caller {
            None => (None, None),
            Some(Caller::Known(user)) => (Some(user), None),
            Some(Caller::Token(token)) => {
                let user = self.identify(token).await;
                let user = user.map_err(|error| silent(Question::Identity, &error))?;
                (user, Some(token))
            }
        };
        let user = user.map(User::authenticated).ok_or(Refusal::Unauthenticated)?;
        let Some(attributes) = needs(&user) else {
            return Ok(());
        };
        let decision = self.decide(&user, attributes).await;
        let decision = decision.map_err(|error| silent(Question::Permission, &error))?;
        if !decision.is_allowed {
            return Err(Refusal::Forbidden {
                user: user.name,
                reason: decision.reason,
            });
        }
        self.let_in(&user, token);
        Ok(())
    }
}
