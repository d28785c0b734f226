//! Who is let in: from what a caller shows to whether they may.

use std::fmt;

use super::{Attributes, ReviewError, Reviews, User};

/// How a caller says who they are.
#[derive(Debug, Clone)]
pub enum Caller<'a> {
    /// Somebody who is believed says it: the API server, or their certificate.
    Known(User),
    /// Their token says it.
    Token(&'a str),
}

/// Why a caller is not let in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// They do not say who they are, or nobody knows their token.
    Unauthenticated,
    /// They may not.
    Forbidden {
        /// Who they are.
        user: String,
        /// Why, as the API server said it.
        reason: String,
    },
    /// The API server gives no answer. Its own words are for the log.
    Unanswered(Question),
}

/// What the API server is asked of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// Whose token it is.
    Identity,
    /// Whether they may.
    Permission,
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Identity => "who this is",
            Self::Permission => "whether this is allowed",
        })
    }
}

impl Reviews {
    /// Lets `caller` in, or says why not. `needs` says what has to be allowed to a user; with nothing it is enough that it is known who
    /// they are. `unanswered` is the beginning of the line of the log when the API server gives no answer.
    ///
    /// # Errors
    /// Whoever is to have no answer.
    pub async fn admit<'a>(
        &self,
        caller: Option<Caller<'_>>,
        needs: impl FnOnce(&User) -> Option<&'a Attributes> + Send,
        unanswered: &str,
    ) -> Result<(), Refusal> {
        let silent = |question: Question, error: &ReviewError| {
            self.tell_unanswered(&format!("{unanswered}: it cannot be found out {question}"), error);
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
