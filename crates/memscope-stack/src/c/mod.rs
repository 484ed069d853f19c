//! Native frames.
