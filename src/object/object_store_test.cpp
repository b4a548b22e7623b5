#include "object/object_store.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sys.h"
#include "wire/crypto.h"

namespace firebreak::object {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const core::TenantId kOne(std::string("111111111111"));
const core::TenantId kTwo(std::string("222222222222"));

class Objects : public testing::Test {
 protected:
  Objects()
      : directory_(std::filesystem::temp_directory_path() / ("objects-" + sys::random_hex(8))) {
    reopen();
    EXPECT_TRUE(store_->create_bucket(kOne, "bucket"));
  }
  ~Objects() override { std::filesystem::remove_all(directory_); }

  void reopen() {
    store_ = std::make_unique<ObjectStore>(directory_.string(), limits_, clock_);
    auto loaded = store_->load();
    EXPECT_TRUE(loaded) << loaded.error().message;
  }
  Result<ObjectInfo> put(const std::string& key, const std::string& bytes,
                         const core::TenantId& tenant = kOne) {
    FB_TRY_ASSIGN(auto draft, store_->begin(tenant, "bucket", bytes.size()));
    FB_TRY(draft->write(bytes));
    return store_->publish(std::move(draft), "bucket",
                           {.key = key, .etag = "e" + bytes, .headers = {{"content-type", "x/y"}}});
  }
  std::string get(const std::string& key) {
    auto info = store_->find(kOne, "bucket", key);
    if (!info) return "(" + info.error().message + ")";
    auto file = store_->open(kOne, "bucket", *info);
    std::string bytes(info->size, '\0');
    EXPECT_TRUE(sys::pread_all(file->get(), std::as_writable_bytes(std::span(bytes)), 0));
    return bytes;
  }
  std::vector<std::string> keys(const ObjectStore::Listing& listing) {
    std::vector<std::string> out;
    for (const ObjectInfo& info : listing.objects) out.push_back(info.key);
    return out;
  }
  std::size_t files() const {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_))
      count += entry.is_regular_file() ? 1 : 0;
    return count;
  }

  std::filesystem::path directory_;
  core::SystemClock clock_;
  ObjectLimits limits_{
      .tenant_bytes = 1000, .object_bytes = 500, .tenant_objects = 20, .buckets = 2};
  std::unique_ptr<ObjectStore> store_;
};

TEST_F(Objects, ArePublishedReplacedAndRemoved) {
  ASSERT_TRUE(put("a/b", "first"));
  EXPECT_EQ(get("a/b"), "first");
  ASSERT_TRUE(put("a/b", "second"));
  EXPECT_EQ(get("a/b"), "second");
  reopen();
  EXPECT_EQ(get("a/b"), "second");
  EXPECT_EQ(store_->find(kOne, "bucket", "a/b")->headers.at("content-type"), "x/y");
  ASSERT_TRUE(store_->remove(kOne, "bucket", "a/b"));
  ASSERT_TRUE(store_->remove(kOne, "bucket", "a/b"));
  EXPECT_EQ(get("a/b"), "(The specified key does not exist.)");
  EXPECT_EQ(files(), 1U);  // the bucket's own
}

TEST_F(Objects, WhatMustBeNewReplacesNothing) {
  ASSERT_TRUE(put("key", "first"));
  auto draft = store_->begin(kOne, "bucket", 6);
  ASSERT_TRUE((*draft)->write("second"));
  auto refused = store_->publish(*std::move(draft), "bucket", {.key = "key"}, true);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::conflict);
  EXPECT_EQ(get("key"), "first");
  EXPECT_EQ(files(), 3U);
}

TEST_F(Objects, OfATenantAreItsOwn) {
  ASSERT_TRUE(put("key", "mine"));
  EXPECT_FALSE(store_->find(kTwo, "bucket", "key"));
  EXPECT_FALSE(store_->begin(kTwo, "bucket", 1));
  ASSERT_TRUE(store_->create_bucket(kTwo, "bucket"));
  EXPECT_FALSE(store_->find(kTwo, "bucket", "key"));
  ASSERT_TRUE(put("key", "theirs", kTwo));
  EXPECT_EQ(get("key"), "mine");
  EXPECT_EQ(store_->buckets(kTwo).size(), 1U);
}

TEST_F(Objects, ADraftThatIsDroppedLeavesNothing) {
  for (int i = 0; i < 5; ++i) {
    auto draft = store_->begin(kOne, "bucket", 900);
    ASSERT_TRUE(draft) << "the room of the one before was not given back";
    ASSERT_TRUE((*draft)->write("x"));
    EXPECT_FALSE((*draft)->write(std::string(900, 'x')));
  }
  EXPECT_EQ(files(), 1U);
}

TEST_F(Objects, WhatACrashLeftIsRemoved) {
  ASSERT_TRUE(put("key", "kept"));
  const std::string dir = (directory_ / kOne.str() / "bucket").string();
  ASSERT_TRUE(sys::replace_file(dir + "/data-of-nobody", "half", 0600));
  reopen();
  EXPECT_FALSE(sys::exists(dir + "/data-of-nobody"));
  EXPECT_EQ(get("key"), "kept");
}

TEST_F(Objects, LimitsHold) {
  ASSERT_TRUE(put("a", std::string(600, 'a')));
  EXPECT_EQ(put("b", std::string(500, 'b')).error().code, Code::exhausted);
  ASSERT_TRUE(put("b", std::string(400, 'b')));
  reopen();
  EXPECT_EQ(put("c", "c").error().code, Code::exhausted);
  ASSERT_TRUE(store_->remove(kOne, "bucket", "a"));
  EXPECT_TRUE(put("c", "c"));
  EXPECT_TRUE(store_->create_bucket(kOne, "other"));
  EXPECT_EQ(store_->create_bucket(kOne, "third").error().code, Code::exhausted);
}

TEST_F(Objects, ListsWithPrefixDelimiterAndPages) {
  for (const char* key : {"a", "b/1", "b/2", "b/c/3", "b0", "z"}) ASSERT_TRUE(put(key, "x"));
  auto all = store_->list(kOne, "bucket", {});
  EXPECT_THAT(keys(*all), ElementsAre("a", "b/1", "b/2", "b/c/3", "b0", "z"));
  auto top = store_->list(kOne, "bucket", {.delimiter = "/"});
  EXPECT_THAT(keys(*top), ElementsAre("a", "b0", "z"));
  EXPECT_THAT(top->prefixes, ElementsAre("b/"));
  auto inside = store_->list(kOne, "bucket", {.prefix = "b/", .delimiter = "/"});
  EXPECT_THAT(keys(*inside), ElementsAre("b/1", "b/2"));
  EXPECT_THAT(inside->prefixes, ElementsAre("b/c/"));

  std::vector<std::string> seen;
  ObjectStore::Query query{.delimiter = "/", .most = 1};
  for (int pages = 0; pages < 10; ++pages) {
    auto page = store_->list(kOne, "bucket", query);
    for (const ObjectInfo& info : page->objects) seen.push_back(info.key);
    for (const std::string& prefix : page->prefixes) seen.push_back(prefix);
    if (page->next.empty()) break;
    query.after = page->next;
  }
  EXPECT_THAT(seen, ElementsAre("a", "b/", "b0", "z"));
}

TEST_F(Objects, UploadsInPartsBecomeOneObject) {
  auto upload = store_->create_upload(kOne, "bucket", "big", {{"content-type", "t/t"}});
  ASSERT_TRUE(upload);
  const auto part = [&](std::uint32_t number, const std::string& bytes) {
    auto draft = store_->begin(kOne, "bucket", bytes.size());
    EXPECT_TRUE((*draft)->write(bytes));
    auto made = store_->publish_part(*std::move(draft), *upload, {.number = number, .etag = bytes});
    EXPECT_TRUE(made);
    return *made;
  };
  part(2, "old");
  part(1, "one,");
  part(2, "two");
  reopen();
  auto found = store_->find_upload(kOne, "bucket", "big", upload->id);
  ASSERT_TRUE(found);
  ASSERT_EQ(found->parts.size(), 2U);
  EXPECT_FALSE(store_->find_upload(kOne, "bucket", "other", upload->id));
  EXPECT_EQ(store_->remove_bucket(kOne, "bucket").error().code, Code::conflict);
  auto made = store_->complete(kOne, *found, {found->parts[1], found->parts[2]}, "tag-2");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(get("big"), "one,two");
  EXPECT_FALSE(store_->find_upload(kOne, "bucket", "big", upload->id));
  EXPECT_EQ(files(), 3U);

  auto other = store_->create_upload(kOne, "bucket", "gone", {});
  upload = *other;
  part(1, "x");
  ASSERT_TRUE(store_->abort(kOne, *other));
  EXPECT_EQ(files(), 3U);
}

TEST(ObjectNames, Buckets) {
  for (const char* good : {"abc", "my-bucket.1", "123"})
    EXPECT_TRUE(check_bucket_name(good)) << good;
  for (const char* bad :
       {"", "ab", "Abc", "-abc", "abc-", "a..b", "a/b", "..", "192.168.0.1", "a_b"})
    EXPECT_FALSE(check_bucket_name(bad)) << bad;
  EXPECT_FALSE(check_bucket_name(std::string(64, 'a')));
  EXPECT_FALSE(check_key(std::string(1025, 'a')));
  EXPECT_TRUE(check_key("../../etc/passwd"));  // a name in a record, never in a directory
}

}  // namespace
}  // namespace firebreak::object
