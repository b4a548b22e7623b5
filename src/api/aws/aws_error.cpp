#include "api/aws/aws_error.h"

namespace firebreak::api {

AwsErrorName auth_error_name(AuthFailure failure, int status) {
  switch (failure) {
    case AuthFailure::missing:
      return {"MissingAuthenticationTokenException", status};
    case AuthFailure::malformed:
      return {"IncompleteSignatureException", status};
    case AuthFailure::skewed:
    case AuthFailure::expired:
    case AuthFailure::mismatch:
      return {"InvalidSignatureException", status};
    case AuthFailure::unknown_key:
      return {"UnrecognizedClientException", status};
    case AuthFailure::ended_session:
      return {"ExpiredTokenException", status};
  }
  return {"AccessDeniedException", status};
}

std::string xml_escape(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\r':
        out += "&#13;";
        break;
      default:
        // XML 1.0 has no other control characters, not even escaped.
        if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t') out += c;
    }
  }
  return out;
}

}  // namespace firebreak::api
