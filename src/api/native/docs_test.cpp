// docs/api.md against the tables of calls: every query value and every member of a body is on the
// page, in the part that tells about its call, and the page's tables of members name no other.
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "api/native/fields.h"
#include "base/text.h"

namespace firebreak::api {
namespace {

std::string page() {
  std::ifstream file(std::string(FIREBREAK_SOURCE_DIR) + "/docs/api.md");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Between headings of the second level.
std::vector<std::string> parts() {
  std::vector<std::string> all;
  std::string text = page();
  for (std::size_t at = 0; at != std::string::npos;) {
    const std::size_t next = text.find("\n## ", at);
    all.push_back(text.substr(at, next == std::string::npos ? next : next + 1 - at));
    at = next == std::string::npos ? next : next + 1;
  }
  return all;
}

// "`POST /v1/microvms`", or "`POST .../suspend`" with an end of the path, or with a query. Names in
// braces are the page's own.
bool tells(const std::string& part, const CallFields& fields) {
  const auto words = split(fields.call, ' ');
  const std::string method(words[0]);
  const std::string path =
      std::regex_replace(std::string(words[1]), std::regex("\\{\\w+\\}"), "\\{\\w+\\}");
  const auto found = [&](const std::string& text) {
    return std::regex_search(part, std::regex("`" + method + " " + text + "[`?]"));
  };
  if (found(path)) return true;
  for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1))
    if (found("\\.\\.\\." + path.substr(at))) return true;
  return false;
}

bool has_word(const std::string& text, std::string_view word) {
  return std::regex_search(text, std::regex("\\b" + std::string(word) + "\\b"));
}

void expect_told(const std::string& where, const Fields& fields, std::string_view call) {
  for (const Field& field : fields) {
    EXPECT_TRUE(has_word(where, field.name)) << call << ": " << field.name << " is not in the page";
  }
}

TEST(ApiPage, HasEveryValueThatACallTakes) {
  for (const CallFields& fields : all_calls()) {
    std::string where;
    for (const std::string& part : parts())
      if (tells(part, fields)) where += part;
    ASSERT_FALSE(where.empty()) << fields.call << " is not in docs/api.md";
    expect_told(where, fields.query, fields.call);
    expect_told(where, fields.body, fields.call);
  }
}

TEST(ApiPage, TablesOfMembersNameNoOther) {
  for (const std::string& part : parts()) {
    std::set<std::string, std::less<>> known;
    for (const CallFields& fields : all_calls()) {
      if (!tells(part, fields)) continue;
      for (const std::string_view name : names_of(fields.body)) known.emplace(name);
    }
    const std::size_t table = part.find("| member | is |\n");
    if (table == std::string::npos) continue;
    std::istringstream rows(part.substr(table, part.find("\n\n", table) - table));
    std::string row;
    std::getline(rows, row);
    std::getline(rows, row);
    while (std::getline(rows, row)) {
      const std::string cell = row.substr(0, row.find('|', 1));
      const std::regex word("`(\\w+)`");
      for (std::sregex_iterator at(cell.begin(), cell.end(), word), end; at != end; ++at)
        EXPECT_TRUE(known.contains((*at)[1].str())) << (*at)[1] << " is no member of a call";
    }
  }
}

}  // namespace
}  // namespace firebreak::api
