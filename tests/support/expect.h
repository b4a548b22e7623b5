// Assertions for tests that are coroutines: gtest's ASSERT_ returns, which a coroutine cannot.
#pragma once

#include <gtest/gtest.h>

#include "base/result.h"

// Ends the coroutine when the condition is false.
#define CO_ASSERT(condition)                     \
  if (!(condition)) {                            \
    ADD_FAILURE() << "not true: " << #condition; \
    co_return;                                   \
  }

// Ends the coroutine when the Result is an error, and shows it.
#define CO_OK(expression)                                                  \
  if (auto co_ok_result = (expression); !co_ok_result) {                   \
    ADD_FAILURE() << #expression << "\n  " << co_ok_result.error().text(); \
    co_return;                                                             \
  }

// The same, and binds the value.
#define CO_VALUE(declaration, expression) \
  CO_VALUE_IMPL(FB_CONCAT(co_value_, __COUNTER__), declaration, expression)
#define CO_VALUE_IMPL(temporary, declaration, expression)               \
  auto temporary = (expression);                                        \
  if (!temporary) {                                                     \
    ADD_FAILURE() << #expression << "\n  " << temporary.error().text(); \
    co_return;                                                          \
  }                                                                     \
  declaration = *std::move(temporary)
