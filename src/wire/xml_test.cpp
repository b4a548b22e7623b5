#include "wire/xml.h"

#include <gtest/gtest.h>

namespace firebreak::wire {
namespace {

TEST(Xml, ReadsElementsTextAndEntities) {
  auto root = parse_xml(
      "<?xml version=\"1.0\"?>\n<!-- x --><s3:Delete xmlns:s3='u>r'><Object><Key>a&amp;b&#x41;"
      "&#233;</Key></Object><Object ><Key/></Object><Quiet>true</Quiet ></s3:Delete>\n");
  ASSERT_TRUE(root) << root.error().message;
  EXPECT_EQ(root->name, "Delete");
  ASSERT_EQ(root->children.size(), 3U);
  EXPECT_EQ(root->children[0].child_text("Key"), "a&bA\xC3\xA9");
  EXPECT_EQ(root->children[1].child_text("Key"), "");
  EXPECT_EQ(root->child_text("Quiet"), "true");
  EXPECT_EQ(root->child("None"), nullptr);
}

TEST(Xml, RefusesTheRest) {
  for (const char* bad :
       {"", "<a>", "<a></b>", "<a>&x;</a>", "<a>&#0;</a>", "<a>&#xD800;</a>", "<a b></a>",
        "<a></a><b></b>", "text", "<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>",
        "<a><![CDATA[x]]></a>", "<a b=c></a>", "<></>"})
    EXPECT_FALSE(parse_xml(bad)) << bad;
  std::string deep;
  for (int i = 0; i < 17; ++i) deep += "<a>";
  for (int i = 0; i < 17; ++i) deep += "</a>";
  EXPECT_FALSE(parse_xml(deep));
  std::string wide = "<a>";
  for (int i = 0; i < 20'000; ++i) wide += "<b/>";
  EXPECT_FALSE(parse_xml(wide + "</a>"));
}

}  // namespace
}  // namespace firebreak::wire
