#include <filesystem>

#include "base/sys.h"
#include "store/conformance.h"
#include "store/sqlite/sqlite_store.h"

namespace firebreak::store {
namespace {

// Each in a directory of its own, removed with it.
Result<std::unique_ptr<Store>> fresh_sqlite() {
  static const struct Root {
    std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("store-" + sys::random_hex(8));
    ~Root() { std::filesystem::remove_all(path); }
  } root;
  static int count = 0;
  const std::filesystem::path directory = root.path / std::to_string(++count);
  FB_TRY(sys::mkdirs(directory, 0700));
  return open_sqlite_store({.path = directory / "store.db"});
}

const auto kEngines = testing::Values(EngineUnderTest{"sqlite", fresh_sqlite});

std::string name_of(const testing::TestParamInfo<EngineUnderTest>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Engine, TenantConformance, kEngines, name_of);
INSTANTIATE_TEST_SUITE_P(Engine, ImageConformance, kEngines, name_of);
INSTANTIATE_TEST_SUITE_P(Engine, MicrovmConformance, kEngines, name_of);

}  // namespace
}  // namespace firebreak::store
