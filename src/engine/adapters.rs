//! Adapters of a loaded model: several at a time, each under a name that requests select it by.

use std::rc::Rc;

use serde::Serialize;

use super::{Engine, Request};
use crate::base::Cancel;
use crate::error::{Error, Result};
use crate::format::Adapter;
use crate::model::adapter::{self, FittedAdapter};
use crate::source::Files;
use crate::state::Voice;

/// An adapter that is loaded.
pub(super) struct Named {
    pub about: AdapterAbout,
    pub fitted: Rc<FittedAdapter>,
}

/// The description of an adapter.
#[derive(Debug, Clone, Serialize)]
pub struct AdapterAbout {
    /// The name that requests give.
    pub name: String,
    /// The largest rank of its products.
    pub rank: usize,
    /// Number of modules that it changes.
    pub modules: usize,
    /// Number of its weights.
    pub parameters: u64,
}

impl Engine {
    /// Loads an adapter under a name, beside those that are loaded. The model's own weights and conversations stay as
    /// they are.
    ///
    /// # Errors
    /// `BAD_OPTION` where the name is taken; `BAD_MODEL` where the files are damaged, or were made for another model;
    /// `UNSUPPORTED_MODEL` where the adapter has features that this version lacks; `OUT_OF_MEMORY` where there is no
    /// room for it.
    pub async fn load_adapter(&mut self, name: &str, files: &Files, cancel: &Cancel) -> Result<AdapterAbout> {
        if name.is_empty() {
            return Err(Error::bad_option("the name of an adapter is empty"));
        }
        if self.adapters.iter().any(|one| one.about.name == name) {
            return Err(Error::bad_option(format!(
                "an adapter named {name:?} is loaded already: unload it first, or take another name"
            )));
        }
        let adapter = Adapter::open(files).await?;
        cancel.check()?;
        let about = AdapterAbout {
            name: name.to_owned(),
            rank: adapter.rank(),
            modules: adapter.modules.len(),
            parameters: adapter.parameters(),
        };
        let fitted = Rc::new(adapter::fit(self.session.model(), adapter)?);
        let wanted: Vec<_> = self.fitted_adapters().into_iter().chain([fitted.clone()]).collect();
        self.place_adapters(&wanted, cancel).await?;
        self.adapters.push(Named { about: about.clone(), fitted });
        Ok(about)
    }

    /// Unloads an adapter and frees its memory. Conversations that were read with it are read again.
    ///
    /// # Errors
    /// `BAD_OPTION` where no adapter has that name.
    pub async fn unload_adapter(&mut self, name: &str, cancel: &Cancel) -> Result<()> {
        let at = self.adapters.iter().position(|one| one.about.name == name).ok_or_else(|| self.no_adapter(name))?;
        let wanted: Vec<_> =
            self.adapters.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, one)| one.fitted.clone()).collect();
        self.place_adapters(&wanted, cancel).await?;
        self.adapters.remove(at);
        Ok(())
    }

    /// The loaded adapters, in the order of loading.
    pub fn adapters(&self) -> impl ExactSizeIterator<Item = &AdapterAbout> {
        self.adapters.iter().map(|one| &one.about)
    }

    pub(super) fn fitted_adapters(&self) -> Vec<Rc<FittedAdapter>> {
        self.adapters.iter().map(|one| one.fitted.clone()).collect()
    }

    async fn place_adapters(&mut self, wanted: &[Rc<FittedAdapter>], cancel: &Cancel) -> Result<()> {
        self.surviving(&|_| (), cancel, async |engine| engine.session.set_adapters(wanted).await).await
    }

    /// The adapter and scale of a request; `None`, as for a scale of 0, is the model alone.
    pub(super) fn voice(&self, request: &Request) -> Result<Option<Voice>> {
        let Some(asked) = &request.adapter else { return Ok(None) };
        let found = self
            .adapters
            .iter()
            .find(|one| one.about.name == asked.name)
            .ok_or_else(|| self.no_adapter(&asked.name))?;
        Ok((asked.scale != 0.0)
            .then(|| Voice { adapter: found.fitted.adapter.fingerprint.clone(), scale: asked.scale }))
    }

    fn no_adapter(&self, name: &str) -> Error {
        let names: Vec<&str> = self.adapters.iter().map(|one| one.about.name.as_str()).collect();
        let loaded =
            if names.is_empty() { "none is loaded".to_owned() } else { format!("loaded are {}", names.join(", ")) };
        Error::bad_option(format!("there is no adapter {name:?}: load it first; {loaded}"))
    }
}
