//! The source of the tree, as the checks and the figures read it.

mod circles;
mod comments;
mod rooms;
mod split;
mod syntax;
mod tree;

pub(crate) use circles::circles;
pub(crate) use comments::{Comment, Opening, comments, line_comments};
pub(crate) use rooms::{Rooms, is_root, places};
pub(crate) use split::Split;
pub(crate) use syntax::{ErrorEnum, UsedPath};
pub(crate) use tree::{SourceFile, Tree, read, root};
