// Any text: what is read as XML can be written and is read alike.
#include <cstdint>
#include <cstdlib>

#include "wire/xml.h"

namespace {

using firebreak::wire::XmlElement;

void put(const XmlElement& element, std::string& out) {
  out += "<" + element.name + ">";
  for (char c : element.text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  for (const XmlElement& child : element.children) put(child, out);
  out += "</" + element.name + ">";
}

bool same(const XmlElement& a, const XmlElement& b) {
  if (a.name != b.name || a.text != b.text || a.children.size() != b.children.size()) return false;
  for (std::size_t i = 0; i < a.children.size(); ++i) {
    if (!same(a.children[i], b.children[i])) return false;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto root = firebreak::wire::parse_xml({reinterpret_cast<const char*>(data), size});
  if (!root) return 0;
  std::string text;
  put(*root, text);
  const auto again = firebreak::wire::parse_xml(text);
  if (!again || !same(*root, *again)) std::abort();
  return 0;
}
