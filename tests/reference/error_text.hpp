// SPDX-License-Identifier: MIT
#pragma once

// What a call that must fail says.

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace reference {

/// The text of the Exception that f() throws; empty if it returns.
template <class Exception = std::invalid_argument, class F>
std::string error_text(F&& f) {
  try {
    f();
  } catch (const Exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace reference

/// The statement throws an Exception whose text holds `part`.
#define EXPECT_ERROR(statement, Exception, part)    \
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, part, \
                      ::reference::error_text<Exception>([&] { statement; }))
