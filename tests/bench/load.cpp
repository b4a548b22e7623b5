#include "bench/load.h"

#include <cstdio>
#include <cstdlib>
#include <regex>

namespace firebreak::bench {

Result<double> load(unsigned core, const std::string& arguments) {
  const std::string command =
      "taskset -c " + std::to_string(core) + " h2load " + arguments + " 2>&1";
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return fail_errno("h2load");
  std::string text;
  char buffer[4096];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) text += buffer;
  ::pclose(pipe);
  std::smatch found;
  static const std::regex kRate("finished in [^,]*, ([0-9.]+) req/s");
  if (text.find(" 0 failed, 0 errored") == std::string::npos ||
      !std::regex_search(text, found, kRate))
    return fail(Code::internal, "h2load: " + text);
  return std::atof(found[1].str().c_str());
}

}  // namespace firebreak::bench
