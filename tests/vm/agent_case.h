// What the tests of the agent in a real guest share: a clone per test, and its calls in short form.
// One thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "vm/vm_test.h"

namespace firebreak::testing_support {

using machine::ExecExit;
using machine::ExecResult;
using machine::ExecSpec;
using machine::ExecStream;

// For steps that take as long as the machine under them needs; only a hang reaches it.
inline Deadline patience() {
  return in_seconds(120);
}

ExecSpec shell_spec(std::string command);
ExecSpec argv_spec(std::vector<std::string> argv);

// As shell(): what a program wrote that ended with status 0.
Task<Result<std::string>> python(Machine& machine, std::string program);

struct Output {
  std::string out;
  std::string err;
  std::string order;  // one letter per run of frames of one type: o, e, g
  std::uint64_t gap = 0;
  std::optional<ExecExit> exit;
};
// To the end of the stream.
Task<Result<Output>> read_all(ExecStream& stream);
// Appends stdout to `seen` until it contains `mark`.
Task<Result<>> read_until(ExecStream& stream, std::string& seen, std::string mark);
// From the start of the exec to its end.
Task<Result<Output>> output_of(Machine& machine, std::string id);

// Any call on the data port with any body; the answer of any status, whole.
Task<Result<net::Reply>> request(Machine& machine, std::string method, std::string target,
                                 std::string_view body = {});
// The code of the error that the agent answered; nothing when it did not.
std::optional<Code> code_of(const net::Reply& reply);

// Runs them all at once and returns when all are done.
Task<void> all_of(std::vector<std::function<Task<void>()>> tasks);

std::string sha256(std::string_view bytes);
std::string random_text(std::size_t size, unsigned seed);
// "1\n2\n..." as seq(1) writes it.
std::string numbers(int last);

class AgentCase : public VmTest {
 protected:
  using Source = std::function<Task<Result<std::shared_ptr<Snapshot>>>()>;
  using Body = std::function<Task<void>(std::unique_ptr<Machine>& machine)>;
  // A fresh clone; it is terminated however the body ends. The body may replace it.
  static void with_clone(const Source& source, const Body& body);
  static void with_clone(const Body& body);
};

}  // namespace firebreak::testing_support
