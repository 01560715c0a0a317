//! Pages survive encoding whatever they hold; damaged ones are refused; golden files still decode.

mod golden;
mod pages;
