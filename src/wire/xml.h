// The little XML that S3 clients send: elements and text, no attributes kept, no DTD, no
// processing beyond the five named entities and numeric ones. Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace firebreak::wire {

struct XmlElement {
  std::string name;  // without a namespace's prefix
  std::string text;  // its own text, not of those inside
  std::vector<XmlElement> children;

  const XmlElement* child(std::string_view child_name) const;  // first, or nullptr
  std::string child_text(std::string_view child_name) const;   // "" when absent
};

// One document: at most 16 levels and 20,000 elements. Code::invalid for anything else.
Result<XmlElement> parse_xml(std::string_view text);

}  // namespace firebreak::wire
