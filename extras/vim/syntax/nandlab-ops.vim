" Vim syntax file
" Language: scripts of system calls of nandlab (docs/scripts.md)
" Made from the table of commands by `cargo run -p script --example editor_files`.

if exists("b:current_syntax")
  finish
endif

syntax iskeyword @,48-57,_,-
syntax match nandlabComment /^\s*#.*$/
syntax match nandlabVariable /\$\w\+\|\${\w\+}/
syntax match nandlabEscape /%\x\x/
syntax match nandlabNumber /\<\d\+\(k\|m\|ms\|s\|h\|d\)\?\>/
syntax match nandlabBrace /\(^\|\s\)\zs[{}]\ze\(\s\|$\)/
syntax match nandlabErrno /\<E[A-Z0-9]\+\>/
syntax keyword nandlabInner fsync fsynceach noreplace exchange whiteout keep-size punch-hole in old-or-new prefix whole absent-or-whole one-of
syntax match nandlabStatement /\(^\s*\|\([{}]\|\<try\|\<E\u\+\)\s\+\)\@<=\(concurrent\|every\|for\|repeat\|fails\|try\)\ze\(\s\|$\)/
syntax match nandlabFunction /\(^\s*\|\([{}]\|\<try\|\<E\u\+\)\s\+\)\@<=\(append\|chmod\|chown\|fallocate\|fdatasync\|fsync\|link\|mkdir\|mknod\|put\|putn\|read\|rename\|rmdir\|rwrite\|setxattr\|sleep\|symlink\|sync\|truncate\|unlink\|unlinkn\|utime\|write\)\ze\(\s\|$\)/
syntax match nandlabIdentifier /\(^\s*\|\([{}]\|\<try\|\<E\u\+\)\s\+\)\@<=\(close\|ftruncate\|open\|pread\|pwrite\)\ze\(\s\|$\)/
syntax match nandlabPreProc /\(^\s*\|\([{}]\|\<try\|\<E\u\+\)\s\+\)\@<=\(ack\|age\|cmd\|drop\|end\|expect\|expect-tree\|load\|log\|mount\|phase\|powercut\|save\|scrub\|settle\|snap\|tree\|umount\|wear\|workload\)\ze\(\s\|$\)/

highlight default link nandlabComment Comment
highlight default link nandlabVariable Special
highlight default link nandlabEscape SpecialChar
highlight default link nandlabNumber Number
highlight default link nandlabBrace Delimiter
highlight default link nandlabErrno Constant
highlight default link nandlabInner Type
highlight default link nandlabStatement Statement
highlight default link nandlabFunction Function
highlight default link nandlabIdentifier Identifier
highlight default link nandlabPreProc PreProc

let b:current_syntax = "nandlab-ops"
