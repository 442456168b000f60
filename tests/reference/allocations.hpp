// SPDX-License-Identifier: MIT
#pragma once

// How often the program has called operator new. A program that uses it includes counting_new.hpp
// in exactly one of its files.

namespace reference {

long allocations();

/// Those that have not been given back by operator delete.
long live_allocations();

/// Lets the allocation fail that comes after `count` more of them; a negative number: none.
void fail_allocation_after(long count);
/// Whether it has failed.
bool allocation_has_failed();

}  // namespace reference
