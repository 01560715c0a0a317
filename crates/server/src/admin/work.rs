//! Threads on which the calls of the administrator's service work.

use std::sync::Arc;

use store::{Store, StoreError};
use tonic::{Response, Status};

use super::AdminApi;
use crate::refusal;

impl AdminApi {
    /// Runs `work` on a thread that may block.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<Response<T>, Status> {
        let store = Arc::clone(&self.edge.store);
        let joined = tokio::task::spawn_blocking(move || work(&store)).await;
        joined
            .map_err(|_| refusal::panicked())?
            .map(Response::new)
            .map_err(refusal::status)
    }

    /// Runs `work` as [`Self::blocking`] does. Agents learn of the schedules that it changes.
    pub(super) async fn changing<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<Response<T>, Status> {
        let edge = Arc::clone(&self.edge);
        self.blocking(move |store| {
            let done = work(store)?;
            edge.attendances.announce(store::schedules::generation(store)?);
            Ok(done)
        })
        .await
    }

    /// Returns the store for work that only the server that keeps house does. Fails at other
    /// servers.
    pub(super) fn house(&self) -> Result<Arc<Store>, Status> {
        self.edge.store.check_keeps_house().map_err(refusal::status)?;
        Ok(Arc::clone(&self.edge.store))
    }

    /// Runs `work` as [`Self::blocking`] does, but only at the server that keeps house.
    pub(super) async fn housekeeping<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<Response<T>, Status> {
        self.house()?;
        self.blocking(work).await
    }
}
