//! Reports over traces made to order.
mod decomposition;
mod fluctuation;
mod labels;
mod launches;
mod leaks;
mod out_of_memory;
mod points;
mod watch;
