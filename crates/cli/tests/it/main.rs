//! The program, as its users call it. Tests that limit or watch a whole process are programs of their own.

mod advice;
mod append;
mod copies;
mod creation;
mod damaged_store;
mod end_to_end;
mod evidence;
mod faults;
mod forgery;
mod gap;
mod heads;
mod heads_in_log;
mod help;
mod hygiene;
mod manners;
mod moved;
mod outputs;
mod people;
mod put_back;
mod readme;
mod receipts;
mod signals;
mod store;
mod transcripts;
mod upgrade;
mod vectors;
