#include "completion_scripts.h"

namespace firebreak::cli {
namespace {

constexpr std::string_view kBash =
    R"sh(# bash completion of firebreak: eval "$(firebreak completion bash)"
_firebreak() {
  local line=${COMP_LINE:0:COMP_POINT} words word candidate kind=
  read -ra words <<<"$line"
  [[ $line == *[[:space:]] ]] && words+=("")
  word=${words[-1]}
  COMPREPLY=()
  while IFS=$'\t' read -r candidate _; do
    case $candidate in
      :file | :directory) kind=$candidate ;;
      *) COMPREPLY+=("$candidate") ;;
    esac
  done < <("${words[0]}" complete-words -- "${words[@]:1}" 2>/dev/null)
  if [[ $kind == :file || $kind == :directory ]]; then
    while read -r candidate; do COMPREPLY+=("$candidate"); done < <(compgen "-${kind:1:1}" -- "$word")
    compopt -o filenames 2>/dev/null
  fi
  # Readline replaces only what follows the last of these characters.
  if [[ $word == *[:=]* ]]; then
    local begun=${word%"${word##*[:=]}"} i
    for i in "${!COMPREPLY[@]}"; do COMPREPLY[i]=${COMPREPLY[i]#"$begun"}; done
  fi
}
complete -F _firebreak firebreak
)sh";

constexpr std::string_view kZsh = R"sh(#compdef firebreak
# zsh completion of firebreak: eval "$(firebreak completion zsh)", after compinit
_firebreak() {
  local -a candidates
  local line kind= text help
  for line in ${(f)"$(${words[1]} complete-words -- "${(@)words[2,CURRENT]}" 2>/dev/null)"}; do
    case $line in
      :file|:directory) kind=$line ;;
      *)
        text=${line%%$'\t'*}
        help=
        [[ $line == *$'\t'* ]] && help=${line#*$'\t'}
        candidates+=("${text//:/\\:}:$help") ;;
    esac
  done
  (( $#candidates )) && _describe -t words firebreak candidates
  case $kind in
    :file) _files ;;
    :directory) _files -/ ;;
  esac
}
compdef _firebreak firebreak
)sh";

constexpr std::string_view kFish =
    R"sh(# fish completion of firebreak: firebreak completion fish | source
function __firebreak_complete
    set -l words (commandline -opc)
    set -e words[1]
    set -l begun (commandline -ct)
    for line in (firebreak complete-words -- $words "$begun" 2>/dev/null)
        switch $line
            case ':file'
                __fish_complete_path "$begun"
            case ':directory'
                __fish_complete_directories "$begun"
            case '*'
                echo $line
        end
    end
end
complete -c firebreak -f -a '(__firebreak_complete)'
)sh";

}  // namespace

std::string_view completion_script(std::string_view shell) {
  if (shell == "zsh") return kZsh;
  return shell == "fish" ? kFish : kBash;
}

}  // namespace firebreak::cli
