//! Conversations beside the first: forked, saved in a store and restored, released.

use super::Engine;
use crate::base::Cancel;
use crate::error::{Error, Result};
use crate::state::SequenceId;
use crate::store::{ModelKey, Store};

impl Engine {
    /// Forks a conversation: both continue from its text so far.
    pub fn fork(&mut self, conversation: u32) -> Result<u32> {
        let from = self.sequence_of(conversation);
        Ok(self.session.states_mut().fork(from)?.0)
    }

    /// Saves a conversation in a store under a name, in place of an earlier one of that name; [`Engine::restore`]
    /// restores it, in this engine or in a later one with the same model and settings.
    pub async fn save(&mut self, conversation: u32, store: &Store, name: &str, cancel: &Cancel) -> Result<()> {
        let key = saved_key(name)?;
        self.surviving(&|_| (), cancel, async |engine| engine.save_as(conversation, store, &key, cancel).await).await
    }

    async fn save_as(&mut self, conversation: u32, store: &Store, key: &ModelKey, cancel: &Cancel) -> Result<()> {
        let mut writer = store.begin_beside(key, cancel).await?;
        let written = self.session.save(self.sequence_of(conversation), &self.fingerprint, &mut writer, cancel).await;
        writer.replace(written).await
    }

    /// A new conversation from a saved one.
    ///
    /// # Errors
    /// `NOT_FOUND` where no conversation has that name, `BAD_OPTION` where model or settings differ, `STORAGE` where it
    /// is damaged.
    pub async fn restore(&mut self, store: &Store, name: &str) -> Result<u32> {
        let files = store.open(&saved_key(name)?).await?;
        let files = files.ok_or_else(|| Error::not_found(format!("no conversation is saved as {name:?}")))?;
        let restore = async |engine: &mut Self| engine.session.restore(&engine.fingerprint, &files).await;
        self.surviving(&|_| (), &Cancel::new(), restore).await.map(|SequenceId(id)| id)
    }

    /// Removes a saved conversation, if it exists.
    pub async fn forget(store: &Store, name: &str) -> Result<()> {
        store.remove(&saved_key(name)?).await
    }

    /// Releases a conversation and frees its memory.
    pub fn release(&mut self, conversation: u32) {
        self.forget_nameless(self.sequence_of(conversation));
    }
}

/// The store's key of a saved conversation.
fn saved_key(name: &str) -> Result<ModelKey> {
    if name.is_empty() {
        return Err(Error::bad_option("the name of a saved conversation is empty"));
    }
    Ok(ModelKey::new(format!("conversation:{name}")))
}
