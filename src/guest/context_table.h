// All contexts of the agent. Owned by the data side; data thread.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "guest/context.h"

namespace firebreak::guest {

class ContextTable {
 public:
  ContextTable(Reactor& reactor, ExecTable& execs, ReseedList& reseed);
  ContextTable(const ContextTable&) = delete;
  ContextTable& operator=(const ContextTable&) = delete;
  ~ContextTable();

  using Made = std::function<void(const Result<std::shared_ptr<Context>>&)>;
  // Answers when the interpreter is ready; one that cannot start is not kept.
  void create(const json::object& body, const Made& made);
  Result<std::shared_ptr<Context>> find(const std::string& id) const;
  const std::map<std::string, std::shared_ptr<Context>>& all() const { return contexts_; }
  Result<> remove(const std::string& id);

 private:
  Result<std::shared_ptr<Context>> make(const json::object& body);
  std::string choose_id();

  Reactor& reactor_;
  ExecTable& execs_;
  ReseedList& reseed_;
  RingBudget budget_;
  std::map<std::string, std::shared_ptr<Context>> contexts_;
  std::uint64_t next_id_ = 1;
};

}  // namespace firebreak::guest
