//! Conversations beside the first: begun from another, kept in a store and taken back, forgotten.

use super::Engine;
use crate::base::Cancel;
use crate::error::{Error, Result};
use crate::state::SequenceId;
use crate::store::{ModelKey, Store};

impl Engine {
    /// A new conversation that begins as another is now: both go on from what was read and written until here.
    pub fn fork(&mut self, conversation: u32) -> Result<u32> {
        let from = self.sequence_of(conversation);
        Ok(self.session.states_mut().fork(from)?.0)
    }

    /// Keeps a conversation in a store under a name, in place of what had it: [`Engine::restore`] takes it back, in this engine or in a later one
    /// with the same model and settings.
    pub async fn save(&mut self, conversation: u32, store: &Store, name: &str, cancel: &Cancel) -> Result<()> {
        let key = saved_key(name)?;
        self.surviving(&|_| (), cancel, async |engine| engine.save_as(conversation, store, &key, cancel).await).await
    }

    async fn save_as(&mut self, conversation: u32, store: &Store, key: &ModelKey, cancel: &Cancel) -> Result<()> {
        let mut writer = store.begin_beside(key, cancel).await?;
        let written = self.session.save(self.sequence_of(conversation), &self.fingerprint, &mut writer, cancel).await;
        writer.replace(written).await
    }

    /// A new conversation that begins as the saved one was.
    ///
    /// # Errors
    /// `NOT_FOUND` where none has that name, `BAD_OPTION` where model or settings are others, `STORAGE` where it is damaged.
    pub async fn restore(&mut self, store: &Store, name: &str) -> Result<u32> {
        let files = store.open(&saved_key(name)?).await?;
        let files = files.ok_or_else(|| Error::not_found(format!("no conversation is saved as {name:?}")))?;
        let restore = async |engine: &mut Self| engine.session.restore(&engine.fingerprint, &files).await;
        self.surviving(&|_| (), &Cancel::new(), restore).await.map(|SequenceId(id)| id)
    }

    /// Removes a saved conversation, if it is there.
    pub async fn forget(store: &Store, name: &str) -> Result<()> {
        store.remove(&saved_key(name)?).await
    }

    /// Forgets a conversation and frees its memory.
    pub fn release(&mut self, conversation: u32) {
        self.forget_nameless(self.sequence_of(conversation));
    }
}

/// What a saved conversation is kept under.
fn saved_key(name: &str) -> Result<ModelKey> {
    if name.is_empty() {
        return Err(Error::bad_option("the name of a saved conversation is empty"));
    }
    Ok(ModelKey::new(format!("conversation:{name}")))
}
