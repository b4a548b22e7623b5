// Contexts as strangers send them: what is accepted, and what is refused before anything runs.
#include "image/build_context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "image/context_upload.h"
#include "wire/crypto.h"
#include "wire/zip_test_archive.h"

namespace firebreak::image {
namespace {

using testing::HasSubstr;
using wire::TarEntry;
using wire::TarType;

struct Item {
  TarEntry entry;
  std::string content;
};

Item file(std::string path, std::string content = "", std::uint32_t mode = 0644) {
  const std::uint64_t size = content.size();
  return {{.path = std::move(path), .mode = mode, .size = size}, std::move(content)};
}
Item dir(std::string path, std::uint32_t mode = 0755) {
  return {{.path = std::move(path), .type = TarType::dir, .mode = mode}, ""};
}
Item link(std::string path, std::string target, TarType type = TarType::symlink) {
  return {{.path = std::move(path), .type = type, .link_target = std::move(target)}, ""};
}

std::string tar(const std::vector<Item>& items) {
  wire::TarWriter writer;
  std::string out;
  for (const Item& item : items) {
    EXPECT_TRUE(writer.begin_entry(item.entry, out));
    out += item.content;
    writer.end_entry(out);
  }
  wire::TarWriter::finish(out);
  return out;
}

Result<std::unique_ptr<BuildContext>> upload(std::string_view bytes,
                                             const ContextLimits& limits = {},
                                             std::size_t piece = 1000) {
  FB_TRY_ASSIGN(auto upload, ContextUpload::create(testing::TempDir(), limits));
  for (std::size_t at = 0; at < bytes.size(); at += piece)
    FB_TRY(upload->feed(bytes.substr(at, piece)));
  return upload->finish();
}

std::string refused(const std::vector<Item>& items, const ContextLimits& limits = {}) {
  const auto context = upload(tar(items), limits);
  return context ? "accepted" : context.error().message;
}

std::string content(const BuildContext& context, std::string_view path) {
  const ContextEntry* entry = context.find(path);
  if (entry == nullptr) return "(none)";
  return context.read(*entry, 0, 1 << 20).value_or("(unreadable)");
}

TEST(BuildContext, KeepsTheTree) {
  const std::string big(100'000, 'b');
  for (const std::size_t piece : {1, 511, 512, 100'000}) {
    const auto context = upload(
        tar({dir("."), file("./Dockerfile", "FROM x"), file("a/b/big", big, 04755), dir("a", 0700),
             link("a/l", "b/big"), link("hard", "./a/b/big", TarType::hardlink), file("empty")}),
        {}, piece);
    ASSERT_TRUE(context) << context.error().message;
    const BuildContext& c = **context;
    EXPECT_EQ(content(c, "Dockerfile"), "FROM x");
    EXPECT_EQ(content(c, "a/b/big"), big);
    EXPECT_EQ(c.find("a/b/big")->mode, 04755);
    EXPECT_EQ(c.find("a/b/big")->sha256, wire::sha256_hex(big));
    EXPECT_EQ(c.read(*c.find("a/b/big"), 99'990, 100), "bbbbbbbbbb");
    EXPECT_EQ(content(c, "hard"), big);
    EXPECT_EQ(content(c, "empty"), "");
    EXPECT_EQ(c.find("a")->mode, 0700);
    EXPECT_EQ(c.find("a/b")->type, ContextEntry::Type::dir);
    EXPECT_EQ(c.find("a/b")->mode, 0755);
    EXPECT_EQ(c.find("a/l")->target, "b/big");
    EXPECT_EQ(c.entries().size(), 7);
    EXPECT_EQ(c.bytes(), 200'006);
  }
}

TEST(BuildContext, RefusesPathsThatLeadOut) {
  EXPECT_THAT(refused({file("/etc/passwd")}), HasSubstr("absolute path"));
  EXPECT_THAT(refused({file("../x")}), HasSubstr("leads out"));
  EXPECT_THAT(refused({file("a/../../x")}), HasSubstr("leads out"));
  EXPECT_THAT(refused({dir("a/..")}), HasSubstr("leads out"));
  EXPECT_THAT(refused({link("l", "/x", TarType::hardlink)}), HasSubstr("absolute path"));
  EXPECT_THAT(refused({link("l", "../x", TarType::hardlink)}), HasSubstr("leads out"));
  EXPECT_THAT(refused({link("../l", "x")}), HasSubstr("leads out"));
  // Through a link that the archive itself made.
  EXPECT_THAT(refused({link("l", "/etc"), file("l/passwd")}), HasSubstr("'l' is not a directory"));
  EXPECT_THAT(refused({link("l", "."), dir("l/a")}), HasSubstr("'l' is not a directory"));
  EXPECT_THAT(refused({file("a"), file("a/b")}), HasSubstr("'a' is not a directory"));
  EXPECT_EQ(refused({file("a..b"), file("...")}), "accepted");
}

TEST(BuildContext, RefusesOddEntries) {
  EXPECT_THAT(refused({{{.path = "null", .type = TarType::fifo}, ""}}),
              HasSubstr("device or a pipe"));
  EXPECT_THAT(refused({file("a"), file("./a")}), HasSubstr("'a' twice"));
  EXPECT_THAT(refused({file("a"), link("a", "b")}), HasSubstr("twice"));
  EXPECT_THAT(refused({file("a"), dir("a")}), HasSubstr("twice"));
  EXPECT_THAT(refused({file(".", "x")}), HasSubstr("not a directory"));
  EXPECT_THAT(refused({link("l", "later", TarType::hardlink), file("later")}),
              HasSubstr("no file before it"));
  EXPECT_THAT(refused({dir("d"), link("l", "d", TarType::hardlink)}),
              HasSubstr("no file before it"));
  EXPECT_THAT(refused({file(std::string(256, 'n'))}), HasSubstr("255 bytes"));
}

TEST(BuildContext, RefusesDevices) {
  std::string archive = tar({file("null")});
  archive[156] = '3';
  archive.replace(148, 8, 8, ' ');
  unsigned sum = 0;
  for (std::size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(archive[i]);
  for (std::size_t digit = 6; digit-- > 0; sum >>= 3)
    archive[148 + digit] = static_cast<char>('0' + (sum & 7));
  const auto context = upload(archive);
  ASSERT_FALSE(context);
  EXPECT_THAT(context.error().message, HasSubstr("'null', a device"));
}

TEST(BuildContext, Limits) {
  const std::string ten(10, 'x');
  EXPECT_EQ(refused({file("a", ten), file("b", ten)}, {.max_bytes = 20}), "accepted");
  EXPECT_THAT(refused({file("a", ten), file("b", ten)}, {.max_bytes = 19}),
              HasSubstr("larger than 19 bytes"));
  EXPECT_THAT(refused({file("a", ten), link("b", "a", TarType::hardlink)}, {.max_bytes = 19}),
              HasSubstr("larger than 19 bytes"));
  EXPECT_THAT(refused({file("a", ten)}, {.max_file = 9}), HasSubstr("'a' of 10 bytes"));
  EXPECT_EQ(refused({file("a"), file("b")}, {.max_entries = 2}), "accepted");
  EXPECT_THAT(refused({file("a"), file("b/c")}, {.max_entries = 2}), HasSubstr("2 entries"));
  EXPECT_THAT(refused({file("a")}, {.max_archive = 512}), HasSubstr("upload is larger"));
  EXPECT_THAT(refused({file("abcdef")}, {.max_path = 5}), HasSubstr("5 bytes"));
  EXPECT_THAT(refused({file("a/b/c")}, {.max_depth = 2}), HasSubstr("2 directories"));
}

// A header that announces ten gigabytes is refused before they come.
TEST(BuildContext, RefusesAHugeFileByItsHeader) {
  wire::TarWriter writer;
  std::string header;
  ASSERT_TRUE(writer.begin_entry({.path = "huge", .size = std::uint64_t{10} << 30}, header));
  const auto upload = ContextUpload::create(testing::TempDir());
  ASSERT_TRUE(upload);
  const auto fed = (*upload)->feed(header);
  ASSERT_FALSE(fed);
  EXPECT_EQ(fed.error().code, Code::exhausted);
}

TEST(BuildContext, Formats) {
  const auto said = [](std::string_view bytes) {
    const auto context = upload(bytes);
    return context ? "accepted" : context.error().message;
  };
  EXPECT_THAT(said(""), HasSubstr("neither"));
  EXPECT_THAT(said("PK"), HasSubstr("neither"));
  EXPECT_THAT(said("\x1f\x8b\x08 rest"), HasSubstr("plain tar archive"));
  EXPECT_THAT(said("not an archive"), HasSubstr("tar archive"));
  EXPECT_THAT(said(std::string(600, 'x')), HasSubstr("tar archive"));
  EXPECT_THAT(said("PK\x03\x04 and nothing more of a zip archive"), HasSubstr("zip archive"));
  const std::string empty_zip("PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 22);
  EXPECT_EQ(said(empty_zip), "accepted");
  const std::string whole = tar({file("a", "content")});
  EXPECT_THAT(said(whole.substr(0, 515)), HasSubstr("ends inside"));
}

TEST(BuildContext, ZipArchives) {
  using wire::zip_test::zip;
  const std::string big(100'000, 'b');
  const std::string archive =
      zip({{.name = "Dockerfile", .content = "FROM x"},
           {.name = "d/big", .content = big, .mode = S_IFREG | 0755, .deflate = true},
           {.name = "d/", .mode = S_IFDIR | 0711},
           {.name = "l", .content = "d/big", .mode = S_IFLNK | 0777}});
  for (const std::size_t piece : {1, 3, 100'000}) {
    const auto context = upload(archive, {}, piece);
    ASSERT_TRUE(context) << context.error().message;
    EXPECT_EQ(content(**context, "Dockerfile"), "FROM x");
    EXPECT_EQ(content(**context, "d/big"), big);
    EXPECT_EQ((*context)->find("d/big")->sha256, wire::sha256_hex(big));
    EXPECT_EQ((*context)->find("d")->mode, 0711);
    EXPECT_EQ((*context)->find("l")->target, "d/big");
  }
  const auto said = [](const std::vector<wire::zip_test::Item>& items,
                       const ContextLimits& limits = {}) {
    const auto context = upload(zip(items), limits);
    return context ? "accepted" : context.error().message;
  };
  EXPECT_THAT(said({{.name = "../x"}}), HasSubstr("leads out"));
  EXPECT_THAT(said({{.name = "a/../../x"}}), HasSubstr("leads out"));
  EXPECT_THAT(said({{.name = "/etc/x"}}), HasSubstr("absolute path"));
  EXPECT_THAT(said({{.name = "l", .content = "/etc", .mode = S_IFLNK | 0777}, {.name = "l/x"}}),
              HasSubstr("'l' is not a directory"));
  EXPECT_THAT(said({{.name = "l", .content = std::string("a\0b", 3), .mode = S_IFLNK | 0777}}),
              HasSubstr("usable target"));
  EXPECT_THAT(said({{.name = "a"}, {.name = "a"}}), HasSubstr("twice"));
  EXPECT_THAT(said({{.name = "dev", .mode = S_IFBLK | 0600}}), HasSubstr("device"));
  EXPECT_THAT(said({{.name = "a", .content = big}}, {.max_file = 1000}), HasSubstr("100000 bytes"));
  EXPECT_THAT(said({{.name = "a", .content = big, .deflate = true}}, {.max_bytes = 1000}),
              HasSubstr("unpacks to more than 1000"));
}

TEST(BuildContext, FindsTheDockerfile) {
  const auto read = [](const std::vector<Item>& items, const std::string& name) {
    const auto context = upload(tar(items));
    EXPECT_TRUE(context);
    const auto text = read_dockerfile(**context, name);
    return text ? *text : text.error().message;
  };
  EXPECT_EQ(read({file("Dockerfile", "FROM x")}, "Dockerfile"), "FROM x");
  EXPECT_EQ(read({file("d/Other", "FROM y")}, "./d/Other"), "FROM y");
  EXPECT_THAT(read({}, "Dockerfile"), HasSubstr("the context is empty"));
  EXPECT_THAT(read({file("x")}, "Dockerfile"), HasSubstr("there is no 'Dockerfile' at the top"));
  EXPECT_THAT(read({file("dockerfile")}, "Dockerfile"), HasSubstr("there is 'dockerfile': rename"));
  EXPECT_THAT(read({file("DOCKERFILE"), file("app/Dockerfile")}, "Dockerfile"),
              HasSubstr("there is 'DOCKERFILE'"));
  EXPECT_THAT(read({file("app/Dockerfile"), file("app/x")}, "Dockerfile"),
              HasSubstr("pack the contents of the directory"));
  EXPECT_THAT(read({dir("Dockerfile")}, "Dockerfile"), HasSubstr("not a regular file"));
  EXPECT_THAT(read({link("Dockerfile", "x")}, "Dockerfile"), HasSubstr("not a regular file"));
  EXPECT_THAT(read({file("Dockerfile", std::string(2'000'000, '#'))}, "Dockerfile"),
              HasSubstr("larger than"));
}

TEST(BuildContext, FindsTheRulesForIt) {
  const auto context = upload(tar({file(".dockerignore", "a"), file("Other.dockerignore", "b"),
                                   file("Bad.dockerignore", "x\n[")}));
  ASSERT_TRUE(context);
  EXPECT_TRUE(read_ignore_rules(**context, "Dockerfile")->excludes("a"));
  EXPECT_FALSE(read_ignore_rules(**context, "Other")->excludes("a"));
  EXPECT_TRUE(read_ignore_rules(**context, "Other")->excludes("b"));
  EXPECT_THAT(read_ignore_rules(**context, "Bad").error().message, HasSubstr("Bad.dockerignore:2"));
  EXPECT_TRUE(read_ignore_rules(**upload(tar({file("x")})), "Dockerfile")->empty());
}

TEST(BuildContext, RefusesLinksThatLeadOut) {
  const auto said = [](const std::vector<Item>& items, const std::string& rules = "") {
    const auto context = upload(tar(items));
    EXPECT_TRUE(context);
    const auto checked = check_links(**context, *wire::IgnoreRules::parse(rules),
                                     Deadline::in(std::chrono::minutes(1)));
    return checked ? "accepted" : checked.error().message;
  };
  EXPECT_EQ(said({link("a", "b"), link("d/a", "../b"), link("d/e/a", "../../x")}), "accepted");
  EXPECT_THAT(said({link("a", "/etc/passwd")}), HasSubstr("leads out of it, to '/etc/passwd'"));
  EXPECT_THAT(said({link("a", "..")}), HasSubstr("leads out"));
  EXPECT_THAT(said({link("d/a", "../../b")}), HasSubstr("'d/a'"));
  EXPECT_THAT(said({link("d/a", "x/../../../b")}), HasSubstr("leads out"));
  EXPECT_EQ(said({link("venv/python", "/usr/bin/python3")}, "venv"), "accepted");
}

TEST(BuildContext, ManyRulesOnManyLinksEndInTime) {
  // Hours of work: every rule looks at every character of every path, and none decides early.
  std::vector<Item> items;
  const std::string deep = "d/" + std::string(200, 'a') + "/";
  for (int i = 0; i < 20'000; ++i) items.push_back(link(deep + std::to_string(i), "/out"));
  std::string rules;
  for (int i = 0; i < 999; ++i) rules += "**/*a*a*a*a*a*a*" + std::to_string(i) + "x\n";
  rules += "d\n";
  const auto context = upload(tar(items), {}, 1 << 20);
  ASSERT_TRUE(context) << context.error().message;
  const auto checked = check_links(**context, *wire::IgnoreRules::parse(rules),
                                   Deadline::in(std::chrono::milliseconds(100)));
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, Code::timeout);
  EXPECT_THAT(checked.error().message, HasSubstr("took too long"));
}

}  // namespace
}  // namespace firebreak::image
