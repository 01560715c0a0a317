mod caller;
mod cursor;
mod fields;
mod problem;
mod rates;
mod roles;
mod tags;
pub use roles::table as role_table;
