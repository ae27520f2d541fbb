autocmd BufRead,BufNewFile *.ops setfiletype nandlab-ops
