//! The formats, as their users call them.

mod independent;
mod layout;
mod people;
mod properties;
mod sealing;
mod section_body;
mod vectors;
