//! Telling a statement that is prepared for later from one that runs now.

use std::sync::Arc;

use datafusion::execution::session_state::SessionState;

/// Lies in the session's configuration while `PREPARE` binds a statement.
struct Preparing;

/// `state`, binding plans that are kept: they must not hold anything that is only true of today's snapshot.
pub fn preparing(mut state: SessionState) -> SessionState {
    state.config_mut().set_extension(Arc::new(Preparing));
    state
}

/// Whether the plan is kept and run on later snapshots.
pub(crate) fn is_preparing(state: &SessionState) -> bool {
    state.config().get_extension::<Preparing>().is_some()
}
