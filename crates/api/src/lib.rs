mod cursor;
mod fields;
mod problem;
mod rates;
mod tags;
