// SPDX-License-Identifier: MIT
#pragma once

// How often the program has called operator new. A program that uses it includes counting_new.hpp
// in exactly one of its files.

namespace reference {

long allocations();

/// Those that have not been given back by operator delete.
long live_allocations();

}  // namespace reference
