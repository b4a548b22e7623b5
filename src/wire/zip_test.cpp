#include "wire/zip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "wire/zip_test_archive.h"

namespace firebreak::wire {
namespace {

using testing::HasSubstr;
using zip_test::Item;
using zip_test::zip;

Result<std::string> content(const ZipArchive& archive, const ZipEntry& entry) {
  std::string out;
  FB_TRY(archive.extract(entry, [&](std::string_view piece) -> Result<> {
    out += piece;
    return {};
  }));
  return out;
}

std::string open_error(const std::string& bytes, const ZipLimits& limits = {}) {
  const auto archive = ZipArchive::open(bytes, limits);
  return archive ? "opened" : archive.error().message;
}

TEST(Zip, ReadsEntries) {
  const std::string big(300'000, 'x');
  const std::string bytes =
      zip({{.name = "Dockerfile", .content = "FROM a"},
           {.name = "d/", .mode = S_IFDIR | 0750},
           {.name = "d/big", .content = big, .mode = 0100755, .deflate = true},
           {.name = "l", .content = "d/big", .mode = S_IFLNK | 0777},
           {.name = "empty", .deflate = true},
           {.name = "plain", .content = "p", .host = 0}},
          {.comment = "hello"});
  const auto archive = ZipArchive::open(bytes);
  ASSERT_TRUE(archive) << archive.error().message;
  const auto& entries = archive->entries();
  ASSERT_EQ(entries.size(), 6);
  EXPECT_EQ(entries[0].path, "Dockerfile");
  EXPECT_EQ(entries[0].mode, 0644);
  EXPECT_EQ(content(*archive, entries[0]), "FROM a");
  EXPECT_EQ(entries[1].path, "d");
  EXPECT_EQ(entries[1].type, ZipEntry::Type::dir);
  EXPECT_EQ(entries[1].mode, 0750);
  EXPECT_EQ(entries[2].mode, 0755);
  EXPECT_LT(entries[2].packed_size, 1000);
  EXPECT_EQ(content(*archive, entries[2]), big);
  EXPECT_EQ(entries[3].type, ZipEntry::Type::symlink);
  EXPECT_EQ(content(*archive, entries[3]), "d/big");
  EXPECT_EQ(content(*archive, entries[4]), "");
  EXPECT_EQ(entries[5].mode, 0644);
}

TEST(Zip, Reads64BitFields) {
  const std::string bytes =
      zip({{.name = "a", .content = "one", .zip64 = true}, {.name = "b", .content = "two"}},
          {.zip64 = true});
  const auto archive = ZipArchive::open(bytes);
  ASSERT_TRUE(archive) << archive.error().message;
  EXPECT_EQ(content(*archive, archive->entries()[0]), "one");
  EXPECT_EQ(content(*archive, archive->entries()[1]), "two");
}

TEST(Zip, BothDirectoriesMustAgree) {
  const Item item{.name = "a", .content = "one"};
  EXPECT_EQ(open_error(zip({item}, {.zip64 = true, .narrow_too = true})), "opened");
  EXPECT_THAT(open_error(zip({item}, {.zip64 = true, .narrow_too = true, .narrow_shift = 1})),
              HasSubstr("differ"));
}

TEST(Zip, AnEmptyArchive) {
  const auto archive = ZipArchive::open(zip({}));
  ASSERT_TRUE(archive);
  EXPECT_TRUE(archive->entries().empty());
}

TEST(Zip, RefusesWhatIsNotOne) {
  const Item item{.name = "a", .content = "hello"};
  const std::string good = zip({item});
  EXPECT_EQ(open_error(good), "opened");
  EXPECT_THAT(open_error(""), HasSubstr("too short"));
  EXPECT_THAT(open_error(std::string(100, 'x')), HasSubstr("no end mark"));
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_NE(open_error(good.substr(0, size)), "opened") << size;
  EXPECT_THAT(open_error(good + "x"), HasSubstr("no end mark"));
  EXPECT_THAT(open_error("x" + good), HasSubstr("not where it says"));
  EXPECT_THAT(open_error(zip({item}, {.disk = 1})), HasSubstr("several files"));
  EXPECT_THAT(open_error(zip({item}, {.extra_count = 1})), HasSubstr("cut"));
  EXPECT_THAT(open_error(zip({item, item}, {.extra_count = -1})), HasSubstr("as long as"));
  EXPECT_THAT(open_error(zip({item}, {.directory_shift = 1})), HasSubstr("not where it says"));
}

TEST(Zip, RefusesEntries) {
  const auto error = [](const Item& item) { return open_error(zip({item})); };
  EXPECT_THAT(error({.name = "a", .flags = 1}), HasSubstr("password"));
  EXPECT_THAT(error({.name = "a", .method = 12}), HasSubstr("deflate"));
  EXPECT_THAT(error({.name = ""}), HasSubstr("usable name"));
  EXPECT_THAT(error({.name = std::string("a\0b", 3)}), HasSubstr("usable name"));
  EXPECT_THAT(error({.name = "a", .local_name = "b"}), HasSubstr("does not lie"));
  EXPECT_THAT(error({.name = "a", .content = "xyz", .size = 2}), HasSubstr("does not lie"));
  EXPECT_THAT(error({.name = "a", .header_at = 1}), HasSubstr("does not lie"));
  EXPECT_THAT(error({.name = "a", .header_at = 1'000'000}), HasSubstr("does not lie"));
  EXPECT_THAT(error({.name = "dev", .mode = S_IFCHR | 0600}), HasSubstr("device"));
  EXPECT_THAT(error({.name = "pipe", .mode = S_IFIFO | 0600}), HasSubstr("pipe"));
  EXPECT_THAT(error({.name = "a\\b", .host = 0}), HasSubstr("writes '/'"));
  EXPECT_EQ(error({.name = "a\\b"}), "opened");
  EXPECT_THAT(error({.name = "l", .content = std::string(5000, 'x'), .mode = S_IFLNK | 0777}),
              HasSubstr("too long a target"));
  EXPECT_THAT(open_error(zip({{.name = "a", .content = "x"}, {.name = "a", .header_at = 0}})),
              testing::AnyOf(HasSubstr("overlap"), HasSubstr("does not lie")));
  EXPECT_THAT(open_error(zip({{.name = "a"}, {.name = "a", .header_at = 0}})),
              HasSubstr("overlap"));
}

TEST(Zip, RefusesBombs) {
  const std::string zeros(1'000'000, '\0');
  const std::string bytes = zip({{.name = "a", .content = zeros, .deflate = true}});
  EXPECT_EQ(open_error(bytes), "opened");
  EXPECT_THAT(open_error(bytes, {.max_bytes = 999'999}), HasSubstr("more than 999999 bytes"));
  EXPECT_THAT(open_error(bytes, {.max_ratio = 100, .ratio_counts_from = 1000}),
              HasSubstr("zip bomb"));
  EXPECT_EQ(open_error(zip({{.name = "a"}, {.name = "b"}}), {.max_entries = 2}), "opened");
  EXPECT_THAT(open_error(zip({{.name = "a"}, {.name = "b"}, {.name = "c"}}), {.max_entries = 2}),
              HasSubstr("3 entries"));
}

TEST(Zip, ContentMustBeAsAnnounced) {
  const auto error = [](const Item& item) {
    const std::string bytes = zip({item});
    const auto archive = ZipArchive::open(bytes);
    if (!archive) return archive.error().message;
    const auto text = content(*archive, archive->entries()[0]);
    return text ? "ok" : text.error().message;
  };
  const std::string text = "some text that is long enough to be packed, packed, packed";
  EXPECT_EQ(error({.name = "a", .content = text, .deflate = true}), "ok");
  EXPECT_THAT(error({.name = "a", .content = text, .crc = 1}), HasSubstr("damaged"));
  EXPECT_THAT(error({.name = "a", .content = text, .deflate = true, .crc = 1}),
              HasSubstr("damaged"));
  EXPECT_THAT(error({.name = "a", .content = text, .deflate = true, .size = 10}),
              HasSubstr("damaged"));
  EXPECT_THAT(error({.name = "a", .content = text, .deflate = true, .size = 1000}),
              HasSubstr("damaged"));
  EXPECT_THAT(error({.name = "a", .content = text, .method = 8}), HasSubstr("damaged"));
}

TEST(Zip, ASinkMayStop) {
  const std::string bytes = zip({{.name = "a", .content = std::string(200'000, 'x')}});
  const auto archive = ZipArchive::open(bytes);
  ASSERT_TRUE(archive);
  const auto stopped = archive->extract(
      archive->entries()[0], [](std::string_view) -> Result<> { return fail(Code::denied, "no"); });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, Code::denied);
}

}  // namespace
}  // namespace firebreak::wire
