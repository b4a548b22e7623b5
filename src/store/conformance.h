// The suite every engine passes: tests are written against Store alone and run once per engine of
// engines_test.cpp. Samples are filled in every member, so that one that is not kept shows.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "store/store.h"

namespace firebreak::store {

struct EngineUnderTest {
  std::string name;
  std::function<Result<std::unique_ptr<Store>>()> open_fresh;
};

class StoreConformance : public testing::TestWithParam<EngineUnderTest> {
 protected:
  void SetUp() override {
    auto opened = GetParam().open_fresh();
    ASSERT_TRUE(opened) << opened.error().text();
    store_ = *std::move(opened);
  }
  Store& store() { return *store_; }

 private:
  std::unique_ptr<Store> store_;
};

class TenantConformance : public StoreConformance {};

// With two tenants and the system's.
class ImageConformance : public StoreConformance {
 protected:
  void SetUp() override;
  core::Tenant a_;
  core::Tenant b_;
};
class MicrovmConformance : public ImageConformance {};

core::Time at(std::int64_t seconds);  // after some fixed moment

// `n` tells samples apart. Every member has a value that is not its default.
core::Tenant sample_tenant(int n);
core::Key sample_key(int n, const core::TenantId& tenant);
core::Image sample_image(int n, const core::TenantId& tenant);
core::ImageVersion sample_version(const core::ImageId& image, std::uint32_t number);
core::Build sample_build(int n, const core::ImageId& image, std::uint32_t version);
core::Microvm sample_microvm(int n, const core::TenantId& tenant);
UsageRow sample_usage(int n, const core::TenantId& tenant);
core::Role sample_role(int n);
core::AccessToken sample_token(int n, const core::Microvm& microvm);

// Moves through `states`, failing the test where the store refuses.
core::Microvm walk(Store& store, core::Microvm microvm,
                   const std::vector<core::MicrovmState>& states);

// The code of a failed result; fails the test when it did not fail.
template <class T>
Code code_of(const Result<T>& result) {
  EXPECT_FALSE(result);
  return result ? Code::internal : result.error().code;
}

}  // namespace firebreak::store

// A result's value, or an end of the test.
#define ASSERT_VALUE(declaration, expression)                                             \
  auto FB_CONCAT(value_, __LINE__) = (expression);                                        \
  ASSERT_TRUE(FB_CONCAT(value_, __LINE__)) << FB_CONCAT(value_, __LINE__).error().text(); \
  declaration = *std::move(FB_CONCAT(value_, __LINE__))
#define ASSERT_DONE(expression)               \
  do {                                        \
    auto done = (expression);                 \
    ASSERT_TRUE(done) << done.error().text(); \
  } while (false)
